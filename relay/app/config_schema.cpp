#include "relay/app/config_schema.h"

#include <nlohmann/json.hpp>

#include "relay/app/config_keys.h"
#include "relay/app/config_layers.h"
#include "relay/app/config_reload.h"
#include "relay/app/config_value.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDuration =
    "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?([0-9]+us)?([0-9]+ns)?$";
constexpr const char* kSize = "^[0-9]+(B|KiB|MiB|GiB|TiB)$";
constexpr const char* kAddress = "^(\\[[^\\]\\[ \\t/]+\\]|[^:\\]\\[ \\t/]+):[0-9]+$";
constexpr const char* kDecimal = "^-?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?$";
constexpr const char* kBrokerName = "^[A-Za-z0-9_-]{1,40}$";

Json matching(const char* pattern) {
  return {{"type", "string"}, {"minLength", 1}, {"pattern", pattern}};
}

// What a variable holds is known to the program only.
Json variable() { return {{"$ref", "#/$defs/variable"}}; }

Json any_of(std::initializer_list<Json> forms) {
  Json result = {{"anyOf", Json::array()}};
  for (const auto& form : forms) result["anyOf"].push_back(form);
  result["anyOf"].push_back(variable());
  return result;
}

Json any_scalar() { return {{"type", {"string", "number", "boolean"}}}; }

Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json within(const char* type, const ConfigKey& key) {
  return {{"type", type}, {"minimum", Json::parse(key.low)}, {"maximum", Json::parse(key.high)}};
}

Json closed_object(Json properties) {
  return {
      {"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
}

// A map whose names are the user's, unless the key tells them.
Json map_of_texts(const ConfigKey& key) {
  Json map = {{"type", "object"}, {"additionalProperties", any_scalar()}};
  if (!key.choices.empty()) map["propertyNames"] = {{"enum", split(key.choices, "|")}};
  return map;
}

Json route() {
  Json match = closed_object({{"eventType", any_scalar()}});
  Json result = closed_object(
      {{"match", std::move(match)}, {"broker", any_scalar()}, {"destination", any_scalar()}});
  result["properties"]["match"]["properties"]["eventType"]["minLength"] = 1;
  return result;
}

Json form_of(const ConfigKey& key) {
  switch (key.kind) {
    case ValueKind::text:
    case ValueKind::url:
      return any_scalar();
    case ValueKind::choice:
      return any_of({{{"enum", split(key.choices, "|")}}});
    case ValueKind::boolean:
      return any_of({{{"type", "boolean"}}, {{"enum", {"true", "false"}}}});
    case ValueKind::count:
      return any_of({within("integer", key), matching("^[0-9]+$")});
    case ValueKind::number:
      return any_of({within("number", key), matching(kDecimal)});
    case ValueKind::duration:
      return any_of({matching(kDuration)});
    case ValueKind::retention:
      return any_of({{{"const", "never"}}, matching(kDuration)});
    case ValueKind::size:
      return any_of({matching(kSize)});
    case ValueKind::address:
      return any_of({matching(kAddress)});
    case ValueKind::texts:
      return list_of(any_scalar());
    case ValueKind::durations:
      return list_of(any_of({matching(kDuration)}));
    case ValueKind::text_map:
    case ValueKind::secrets:
      return map_of_texts(key);
    case ValueKind::routes:
      return list_of(route());
  }
  return {};
}

// The default in the form that somebody would write.
Json default_of(const ConfigKey& key) {
  std::vector<Problem> none;
  ConfigValue value;
  convert_value(key, std::string(key.path), default_node(key), value, none);
  switch (key.kind) {
    case ValueKind::boolean:
      return value.truth;
    case ValueKind::count:
    case ValueKind::number:
      return Json::parse(key.fallback);
    case ValueKind::texts:
      return value.texts;
    case ValueKind::durations: {
      Json list = Json::array();
      for (const auto& duration : value.durations) list.push_back(format_duration(duration));
      return list;
    }
    case ValueKind::text_map:
    case ValueKind::secrets:
      return Json::object();
    case ValueKind::routes:
      return Json::array();
    case ValueKind::text:
    case ValueKind::url:
    case ValueKind::choice:
    case ValueKind::duration:
    case ValueKind::retention:
    case ValueKind::size:
    case ValueKind::address:
      return key.fallback;
  }
  return {};
}

Json setting(const ConfigKey& key) {
  std::string about(key.about);
  const bool by_unit = key.kind == ValueKind::duration || key.kind == ValueKind::durations ||
                       key.kind == ValueKind::size;
  if (by_unit) about += " From " + std::string(key.low) + " to " + std::string(key.high) + ".";
  if (applies_at_once(key.path)) about += " A change applies at once.";
  Json result = {{"description", about}, {"default", default_of(key)}};
  result.update(form_of(key));
  return result;
}

Json section(const std::string& path) {
  Json properties = Json::object();
  for (const auto& name : names_below(path)) {
    const std::string below = path.empty() ? name : path + "." + name;
    const ConfigKey* key = find_key(below);
    properties[name] = key != nullptr ? setting(*key) : section(below);
  }
  Json result = closed_object(std::move(properties));
  result["type"] = {"object", "null"};  // a section may be left empty
  return result;
}

// The names of brokers are the user's.
Json brokers() {
  Json broker = section("brokers.*");
  broker["type"] = "object";
  return {{"type", {"object", "null"}},
          {"propertyNames", {{"pattern", kBrokerName}}},
          {"additionalProperties", std::move(broker)}};
}

}  // namespace

std::string config_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "The configuration of outbox-relay"}};
  schema.update(section(""));
  schema["properties"]["brokers"] = brokers();
  schema["$defs"]["variable"] = {
      {"description", "${NAME}, ${NAME:-default} or ${NAME:?message}; $$ is one $."},
      {"type", "string"},
      {"pattern", "\\$"}};
  return schema.dump(2) + "\n";
}

}  // namespace outbox
