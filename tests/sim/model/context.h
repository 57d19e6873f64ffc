// What every part of one simulated world shares.
#pragma once

#include <map>
#include <memory>

#include "tests/sim/model/broker.h"
#include "tests/sim/model/events.h"
#include "tests/sim/model/facts.h"
#include "tests/sim/model/scenario.h"
#include "tests/sim/model/table.h"
#include "tests/sim/model/trace.h"

namespace outbox::sim {

class Process;

struct Context {
  const Scenario& scenario;
  EventQueue& events;
  Table& table;
  Broker& broker;
  Facts& facts;
  Trace& trace;
  bool faults_on = true;
  std::map<ProcessId, Process*> processes;  // those that live

  // Null when the process is gone: what it had planned does not happen.
  Process* find(ProcessId id) const {
    const auto found = processes.find(id);
    return found == processes.end() ? nullptr : found->second;
  }
};

}  // namespace outbox::sim
