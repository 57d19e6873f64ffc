// docs/configuration.md and docs/adr-087.md against the program's own tables.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "relay/app/config_keys.h"
#include "relay/app/config_layers.h"

namespace outbox {
namespace {

// The page, wherever in the tree the test runs.
std::string page(const std::string& name) {
  for (auto folder = std::filesystem::current_path();; folder = folder.parent_path()) {
    std::ifstream file(folder / "docs" / name);
    if (file) return {std::istreambuf_iterator<char>(file), {}};
    if (folder == folder.parent_path()) return {};
  }
}

// A cell without blanks around it and without marks.
std::string plain(std::string cell) {
  std::erase(cell, '`');
  const auto first = cell.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return cell.substr(first, cell.find_last_not_of(' ') - first + 1);
}

// The rows of all tables whose first cell is a key: key -> its cells.
std::map<std::string, std::vector<std::string>> rows_of(const std::string& text) {
  std::map<std::string, std::vector<std::string>> rows;
  for (const std::string& line : split(text, "\n")) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    for (const std::string& cell : split(line, "|")) cells.push_back(plain(cell));
    cells.erase(cells.begin());
    rows.emplace(cells.front(), cells);
  }
  return rows;
}

// How the page words the values that a key takes, where the table limits them.
std::string values_of(const ConfigKey& key) {
  if (!key.low.empty()) return fmt::format("{} to {}", key.low, key.high);
  std::string text;
  if (key.choices.empty() || key.kind == ValueKind::text_map) return text;
  for (const std::string& choice : split(key.choices, "|")) {
    text += (text.empty() ? "" : ", ") + (choice.empty() ? "empty" : choice);
  }
  return text;
}

TEST_CASE("every setting stands in docs/configuration.md with its default and its range") {
  auto rows = rows_of(page("configuration.md"));
  REQUIRE_FALSE(rows.empty());
  for (const ConfigKey& key : config_keys()) {
    CAPTURE(key.path);
    const auto found = rows.find(std::string(key.path));
    REQUIRE(found != rows.end());
    REQUIRE(found->second.size() >= 4);
    CHECK(found->second[1] == key.fallback);
    if (const std::string values = values_of(key); !values.empty()) {
      CHECK(found->second[2] == values);
    }
    CHECK_FALSE(found->second[3].empty());
    const bool said = found->second[3].find("this version") != std::string::npos;
    if (key.unfinished != Unfinished::no) CHECK(said);
    rows.erase(found);
  }
  for (const auto& [key, cells] : rows) FAIL_CHECK("the page names a key that is none: " << key);
}

TEST_CASE("docs/adr-087.md lists exactly what the profile sets") {
  auto rows = rows_of(page("adr-087.md"));
  for (const auto& [path, node] : profile_layer("adr-087")) {
    CAPTURE(path);
    const auto found = rows.find(path);
    REQUIRE(found != rows.end());
    const ConfigKey* key = find_key(path);
    REQUIRE(key != nullptr);
    CHECK(found->second[2] == key->fallback);
    if (!node.text.empty()) CHECK(found->second[1] == node.text);
    rows.erase(found);
  }
  for (const auto& [key, cells] : rows) FAIL_CHECK("the profile does not set " << key);
}

}  // namespace
}  // namespace outbox
