#include "tests/bench/report.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace outbox::bench {

void print(const Drained& drained) {
  fmt::print("{{\"count\": {}, \"seconds\": {:.6f}, \"cpu_seconds\": {:.6f}}}\n", drained.count,
             drained.elapsed.count(), drained.cpu.count());
}

void write_record(const std::string& path, const std::vector<Instant>& record) {
  std::ofstream file(path);
  for (const Instant& instant : record) {
    file << fmt::format("{} {} {}\n", instant.id, instant.from, instant.to);
  }
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write {}", path));
}

}  // namespace outbox::bench
