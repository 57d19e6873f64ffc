// A small HTTP receiver that can be broken: the far end of the demonstration.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>

namespace outbox {

enum class ReceiverMood {
  working,   // answers 204, or 400 to an event it was told to refuse
  refusing,  // nobody listens: connections are refused
  hanging,   // takes the connection and never answers
};

const char* name_of(ReceiverMood mood);

struct ReceiverTally {
  std::uint64_t received = 0;  // different events accepted
  std::uint64_t repeated = 0;  // accepted again: duplicates
  std::uint64_t refused = 0;   // answered with 400
};

// Listens on a free port of the loopback interface, on a thread of its own. All functions may be
// called from any thread. It trusts its peer, the relay, but caps what it reads.
class DemoReceiver {
 public:
  // Throws std::system_error when there is no port to be had.
  DemoReceiver();
  ~DemoReceiver();
  DemoReceiver(const DemoReceiver&) = delete;
  DemoReceiver& operator=(const DemoReceiver&) = delete;

  std::uint16_t port() const { return port_; }

  // Connections that are open at that moment are cut.
  void set_mood(ReceiverMood mood);
  ReceiverMood mood() const { return mood_; }

  // Answers 400 to the event with this id from now on, until accept_all().
  void refuse_event(const std::string& id);
  void accept_all();

  ReceiverTally tally() const;
  // What was accepted: event id -> hash of the body.
  std::unordered_map<std::string, std::size_t> accepted() const;

 private:
  struct Connection;
  class Server;

  // Counts the request and says how to answer it: the status code.
  int take(const std::string& id, const std::string& body);

  std::uint16_t port_ = 0;
  std::atomic<ReceiverMood> mood_{ReceiverMood::working};
  std::atomic<bool> ending_{false};
  int wake_ = -1;  // an eventfd: the mood changed, or it is over

  mutable std::mutex mutex_;
  ReceiverTally tally_;
  std::unordered_map<std::string, std::size_t> accepted_;
  std::unordered_set<std::string> refuse_;

  std::unique_ptr<Server> server_;  // used by the thread only
  std::thread thread_;
};

}  // namespace outbox
