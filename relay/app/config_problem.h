// What is wrong with a configuration, and where it stands.
#pragma once

#include <string>
#include <vector>

namespace outbox {

// Where a value was given.
struct Origin {
  enum class Kind { fallback, profile, file, environment, flag };

  Kind kind = Kind::fallback;
  std::string name;  // the file as it was named, the variable or the flag
  int line = 0;      // of a file, from 1; 0: the file as a whole
  int column = 0;

  bool operator==(const Origin&) const = default;
};

// "relay.yaml:14:7", "environment variable OUTBOX_RELAY__...", "flag --set", "profile adr-087".
std::string describe(const Origin& origin);

struct Problem {
  Origin origin;
  std::string path;    // relay.leaseTerm; empty: the document itself
  std::string value;   // as it was written, without secrets; empty: not shown
  std::string reason;  // with what to do about it
};

// "relay.yaml:14:7: relay.leaseTerm = "10": a duration needs a unit; write 10s or 10ms"
std::string describe(const Problem& problem);

// A problem without a value to show.
Problem problem_at(const Origin& origin, std::string path, std::string reason);

}  // namespace outbox
