#include "tests/sim/model/trace.h"

#include <cstdio>

namespace outbox::sim {

void Trace::add(std::uint64_t value) {
  hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ULL;
  hash_ ^= hash_ >> 29;
}

void Trace::add(std::string_view text) {
  for (const char letter : text) {
    hash_ = (hash_ ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
}

void Trace::event(Time now, std::string_view actor, std::string_view what,
                  std::initializer_list<Field> fields, std::string_view text) {
  ++events_;
  add(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  add(actor);
  add(what);
  add(text);
  for (const Field& field : fields) add(field.value);
  if (!print_) return;
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  std::printf("%14.6f %-10.*s %-14.*s", seconds, static_cast<int>(actor.size()), actor.data(),
              static_cast<int>(what.size()), what.data());
  for (const Field& field : fields) {
    std::printf(" %s=%llu", field.name, static_cast<unsigned long long>(field.value));
  }
  if (!text.empty()) std::printf(" (%.*s)", static_cast<int>(text.size()), text.data());
  std::printf("\n");
}

}  // namespace outbox::sim
