// A small seeded generator (xoshiro256**, seeded by splitmix64; Blackman and Vigna, 2018).
// The standard distributions differ between libraries, so a seed would not replay: these don't.
#pragma once

#include <array>
#include <cstdint>
#include <random>

namespace outbox {

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) word = next_seed(seed);
  }

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // Uniform in [low, high).
  double between(double low, double high) { return low + (high - low) * unit(); }

  // Uniform in [0, bound); 0 for a bound of 0. The bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

  bool chance(double probability) { return unit() < probability; }

 private:
  static std::uint64_t rotate(std::uint64_t value, int bits) {
    return (value << bits) | (value >> (64 - bits));
  }
  static std::uint64_t next_seed(std::uint64_t& seed) {
    seed += 0x9e3779b97f4a7c15ULL;
    std::uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
  }

  std::array<std::uint64_t, 4> state_{};
};

// A seed that differs from any other's, from the system.
inline std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace outbox
