// A file that is gone at the end of the test.
#pragma once

#include <filesystem>
#include <string>

#include "tests/temporary_folder.h"

namespace outbox {

// In a folder of its own, which goes with it: what a test puts beside the file goes, too.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) { write(text); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& text) { folder_.write("file", text); }
  void remove() { std::filesystem::remove(path_); }

 private:
  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};

}  // namespace outbox
