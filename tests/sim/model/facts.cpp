#include "tests/sim/model/facts.h"

#include "tests/sim/model/seeds.h"

namespace outbox::sim {
namespace {

std::uint64_t of(const std::string& id, const std::string& type,
                 const std::optional<std::string>& key, const std::vector<Header>& headers,
                 const std::string& payload) {
  std::uint64_t hash = mix(1, id);
  hash = mix(hash, type);
  hash = mix(hash, key.value_or("(no key)"));
  for (const Header& header : headers) hash = mix(mix(hash, header.name), header.value);
  return mix(hash, payload);
}

}  // namespace

std::uint64_t fingerprint(const Row& row) {
  return of(row.id, row.event_type, row.key, row.headers, row.payload);
}

std::uint64_t fingerprint(const Message& message) {
  return of(message.id, message.event_type, message.ordering_key, message.headers, message.payload);
}

}  // namespace outbox::sim
