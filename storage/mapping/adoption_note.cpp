#include "storage/mapping/adoption_note.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace outbox {
namespace {

// What decides which rows are to be sent, and as what, and by what they are known: by the names of
// the settings.
using Signature = std::map<std::string, std::string>;

Signature signature(const Mapping& mapping) {
  const Columns& c = mapping.columns;
  const States& s = mapping.states;
  return {{"columns.sequence", c.sequence},    {"columns.id", c.id},
          {"columns.eventType", c.event_type}, {"columns.payload", c.payload},
          {"columns.status", c.status},        {"columns.processedAt", c.processed_on},
          {"states.pending", s.pending},       {"states.failed", s.failed},
          {"states.processed", s.processed},   {"states.deadLettered", s.dead_lettered}};
}

// What an older program did not write down, it took for no difference. Nothing if it is not ours.
Signature read_signature(const std::string& text) {
  Signature result;
  const auto written = nlohmann::json::parse(text, nullptr, false);
  if (!written.is_object()) return result;
  for (const auto& [name, value] : written.items()) {
    if (!value.is_string()) return {};
    result[name] = value.get<std::string>();
  }
  return result;
}

// What of the mapping is not as it was written down, and how it would be so again.
std::string difference(const Signature& before, const Signature& now) {
  std::vector<std::string> settings;
  for (const auto& [name, value] : before) {
    const auto found = now.find(name);
    if (found == now.end() || found->second != value) {
      settings.push_back(fmt::format("store.{}: {}", name, literal(value)));
    }
  }
  return fmt::format("{}", fmt::join(settings, ", "));
}

}  // namespace

std::string signature_of(const Mapping& mapping) {
  return nlohmann::json(signature(mapping)).dump();
}

Adopted compare_signature(const std::string& written, const Mapping& mapping) {
  const Signature before = read_signature(written);
  const Signature now = signature(mapping);
  const bool same = std::all_of(before.begin(), before.end(), [&now](const auto& setting) {
    const auto found = now.find(setting.first);
    return found != now.end() && found->second == setting.second;
  });
  if (same && !before.empty()) return {Adopted::Answer::yes, {}};
  return {Adopted::Answer::as_another, difference(before, now)};
}

std::string begun_otherwise(const std::string& table, const std::string& database,
                            const Adopted& before) {
  const std::string as_before =
      before.difference.empty()
          ? ""
          : fmt::format("to go on as before, set {}; else ", before.difference);
  return fmt::format(
      "the columns or states of the table {} in {} are other ones than the relay began with, so "
      "that rows may be taken for others: {}say what is to become of the rows with outbox-relay "
      "adopt",
      table, database, as_before);
}

}  // namespace outbox
