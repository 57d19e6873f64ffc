#include "relay/app/config_node.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <sstream>
#include <utility>

#include "relay/app/printable.h"

namespace outbox {
namespace {

// Aliases can make a small text a huge tree, or an endless one.
constexpr int kDeepest = 16;
constexpr int kMostNodes = 20'000;

class YamlReader {
 public:
  YamlReader(const Origin& origin, const Environment* environment, std::vector<Problem>& problems)
      : origin_(origin), environment_(environment), problems_(problems) {}

  ConfigNode convert(const YAML::Node& yaml, const std::string& path, int depth = 0) {
    ConfigNode node;
    node.origin = at(yaml.Mark());
    if (depth > kDeepest || ++nodes_ > kMostNodes) {
      if (!overgrown_)
        problems_.push_back(
            problem_at(node.origin, path, "is nested too deeply; leave out what is not needed"));
      overgrown_ = true;
      node.broken = true;
      return node;
    }
    if (yaml.IsScalar()) convert_scalar(yaml, path, node);
    if (yaml.IsSequence()) convert_list(yaml, path, depth, node);
    if (yaml.IsMap()) convert_map(yaml, path, depth, node);
    return node;
  }

  Origin at(const YAML::Mark& mark) const {
    Origin result = origin_;
    if (origin_.kind != Origin::Kind::file || mark.is_null()) return result;
    result.line = mark.line + 1;
    result.column = mark.column + 1;
    return result;
  }

 private:
  void convert_scalar(const YAML::Node& yaml, const std::string& path, ConfigNode& node) {
    node.kind = ConfigNode::Kind::scalar;
    node.shown = yaml.Scalar();
    node.text = node.shown;
    if (environment_ == nullptr) return;
    auto expanded = expand(node.shown, *environment_);
    if (!expanded.ok()) {
      problems_.push_back(problem_at(node.origin, path, expanded.error));
      node.broken = true;
    }
    node.text = std::move(expanded.value);
  }

  void convert_list(const YAML::Node& yaml, const std::string& path, int depth, ConfigNode& node) {
    node.kind = ConfigNode::Kind::list;
    std::size_t index = 0;
    for (const auto& item : yaml) {
      node.items.push_back(convert(item, fmt::format("{}[{}]", path, index++), depth + 1));
    }
  }

  void convert_map(const YAML::Node& yaml, const std::string& path, int depth, ConfigNode& node) {
    node.kind = ConfigNode::Kind::map;
    std::set<std::string> seen;
    for (const auto& entry : yaml) {
      ConfigNode key;
      key.origin = at(entry.first.Mark());
      if (!entry.first.IsScalar()) {
        problems_.push_back(problem_at(key.origin, path, "a key must be a plain text"));
        continue;
      }
      key.kind = ConfigNode::Kind::scalar;
      key.text = key.shown = entry.first.Scalar();
      const std::string below = path.empty() ? key.text : path + "." + key.text;
      if (key.text == "<<") {
        problems_.push_back(
            problem_at(key.origin, below, "merge keys are not supported; write the keys out"));
        continue;
      }
      if (!seen.insert(key.text).second) {
        problems_.push_back(
            problem_at(key.origin, below, "this key was given before; keep one of the two"));
        continue;
      }
      auto value = convert(entry.second, below, depth + 1);
      if (value.kind == ConfigNode::Kind::nothing) value.origin = key.origin;
      node.entries.push_back({std::move(key), std::move(value)});
    }
  }

  const Origin& origin_;
  const Environment* environment_;
  std::vector<Problem>& problems_;
  int nodes_ = 0;
  bool overgrown_ = false;
};

// Notes where documents begin, and nothing else.
class DocumentStarts final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { marks.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  std::vector<YAML::Mark> marks;
};

// The first two documents' beginnings. Not by YAML::LoadAll: the library finds documents without
// end where a text begins with a comma.
std::vector<YAML::Mark> document_starts(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  while (starts.marks.size() < 2 && parser.HandleNextDocument(starts)) {
  }
  return starts.marks;
}

}  // namespace

ConfigNode scalar_node(Origin origin, std::string text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.origin = std::move(origin);
  node.text = std::move(text);
  node.shown = node.text;
  return node;
}

ConfigNode parse_yaml(const std::string& text, const std::string& path, const Origin& origin,
                      const Environment* environment, std::vector<Problem>& problems) {
  YamlReader reader(origin, environment, problems);
  ConfigNode nothing;
  nothing.origin = origin;
  nothing.broken = true;
  try {
    const auto starts = document_starts(text);
    if (starts.empty()) {
      nothing.broken = false;
      return nothing;
    }
    if (starts.size() > 1 && starts[1].pos == starts[0].pos) {
      problems.push_back(
          problem_at(reader.at(starts[0]), path, "is not valid YAML: check the punctuation here"));
      return nothing;
    }
    if (starts.size() > 1) {
      problems.push_back(
          problem_at(reader.at(starts[1]), path, "holds more than one YAML document; keep one"));
      return nothing;
    }
    return reader.convert(YAML::Load(text), path);
  } catch (const YAML::Exception& exception) {
    problems.push_back(
        problem_at(reader.at(exception.mark), path,
                   fmt::format("is not valid YAML: {}; check indentation, quotes and brackets",
                               printable(exception.msg))));
  }
  return nothing;
}

}  // namespace outbox
