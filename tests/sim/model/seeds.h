// Seeds for each actor and fault source: removing one leaves the others' choices as they were.
#pragma once

#include <cstdint>
#include <string_view>

#include "relay/random.h"

namespace outbox::sim {

inline std::uint64_t mix(std::uint64_t seed, std::string_view name, std::uint64_t number = 0) {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ (seed * 0x9e3779b97f4a7c15ULL);
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return Random(hash ^ (number * 0xd6e8feb86659fd93ULL)).next();
}

}  // namespace outbox::sim
