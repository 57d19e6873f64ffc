// Real events to demonstrate with: bodies of GitHub's webhooks, part of the program.
#pragma once

#include <string>
#include <vector>

namespace outbox {

struct DemoEvent {
  std::string event_type;
  std::string ordering_key;
  std::string payload;  // JSON
};

// At least one. Never fails: the text was checked when it was embedded.
std::vector<DemoEvent> demo_events();

}  // namespace outbox
