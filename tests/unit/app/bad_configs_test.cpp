// Wrong configurations: each file in bad_configs/ has beside it what must be said about it, line
// by line, and nothing else may be said.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "config_fixture.h"

namespace outbox {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> expected_lines(fs::path file) {
  std::ifstream stream(file.replace_extension(".expected"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<fs::path> bad_configs() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(OUTBOX_BAD_CONFIGS)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

TEST_CASE("a wrong configuration is told with every error, its place and what to do") {
  const auto files = bad_configs();
  CHECK(files.size() >= 20);
  for (const auto& file : files) {
    CAPTURE(file.filename().string());
    ConfigInput input;
    input.file = file.string();
    input.file_required = true;
    const auto said = lines_of(load_config(input, named_backends()));
    const auto expected = expected_lines(file);
    CHECK(!expected.empty());
    CHECK(said.size() == expected.size());
    for (const auto& line : expected) {
      CAPTURE(line);
      CHECK(std::ranges::any_of(
          said, [&](const auto& text) { return text.find(line) != std::string::npos; }));
    }
    for (const auto& line : said) CHECK(line.find("hunter2") == std::string::npos);
  }
}

}  // namespace
}  // namespace outbox
