// A folder that is gone at the end of the test.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace outbox::testing {

// In memory where possible: a shared disk would decide how long the tests take.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code ignored;
    const std::filesystem::path memory = "/dev/shm";
    const bool usable =
        std::filesystem::is_directory(memory, ignored) && ::access(memory.c_str(), W_OK) == 0;
    const auto base = usable ? memory : std::filesystem::temp_directory_path();
    std::string pattern = (base / "outbox-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::trunc) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace outbox::testing
