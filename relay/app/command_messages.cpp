// messages find and messages show.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "publishers/wire/text.h"
#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/next_step.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {
namespace {

constexpr std::uint64_t kPayloadMax = 1u << 20;  // so much of one is shown
constexpr std::size_t kBytesALine = 16;

std::string state_words(const MessageSummary& message) {
  std::string words = name_of(message.state);
  if (message.leased) words += ", leased";
  return words;
}

nlohmann::ordered_json to_json(const MessageSummary& message) {
  return {{"id", message.id},
          {"eventType", message.event_type},
          {"orderingKey", message.ordering_key},
          {"state", name_of(message.state)},
          {"leased", message.leased},
          {"attempts", message.attempts},
          {"lastError", message.last_error},
          {"occurredOn", message.occurred_on}};
}

void print_messages(const std::vector<MessageSummary>& messages, OutputFormat output) {
  if (output != OutputFormat::table) {
    std::vector<nlohmann::ordered_json> objects;
    objects.reserve(messages.size());
    for (const auto& message : messages) objects.push_back(to_json(message));
    return print_json(objects, output);
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "EVENT TYPE", "STATE", "ATTEMPTS", "OCCURRED ON", "LAST ERROR"}};
  for (const auto& message : messages) {
    rows.push_back({printable(message.id), printable(message.event_type, 60), state_words(message),
                    fmt::format("{}", message.attempts), printable(message.occurred_on, 40),
                    printable(message.last_error, 120)});
  }
  print_table(rows);
}

std::string in_hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// As hexdump -C would.
std::string hex_dump(const std::string& bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += kBytesALine) {
    const std::string line = bytes.substr(at, kBytesALine);
    std::string hex;
    std::string letters;
    for (const char byte : line) {
      hex += fmt::format("{:02x} ", static_cast<unsigned char>(byte));
      letters += byte >= ' ' && byte <= '~' ? byte : '.';
    }
    text += fmt::format("{:08x}  {:<{}} |{}|\n", at, hex, 3 * kBytesALine, letters);
  }
  return text;
}

// A text that stays a text, but for what a terminal would obey.
std::string shown_payload(const std::string& payload) {
  const bool plain = is_valid_utf8(payload) && std::ranges::none_of(payload, [](char letter) {
                       const auto byte = static_cast<unsigned char>(letter);
                       return byte == 0x7f || (byte < ' ' && letter != '\n' && letter != '\t');
                     });
  if (!plain) return hex_dump(payload);
  std::string text;
  for (std::size_t begin = 0; begin <= payload.size();) {
    const std::size_t end = std::min(payload.find('\n', begin), payload.size());
    text += printable_sentence(payload.substr(begin, end - begin), kPayloadMax) + "\n";
    begin = end + 1;
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<NamedValue>& values) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : values) {
    if (value) {
      object[name] = *value;
    } else {
      object[name] = nullptr;
    }
  }
  return object;
}

nlohmann::ordered_json to_json(const std::vector<AuditRecord>& audit) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const auto& entry : audit) {
    entries.push_back({{"at", entry.at}, {"action", entry.action}, {"reason", entry.reason}});
  }
  return entries;
}

nlohmann::ordered_json to_json(const MessageDetail& detail, const RelayOptions& options) {
  nlohmann::ordered_json object = to_json(detail.summary);
  object["next"] = next_step(detail, options);
  object["columns"] = to_json(detail.columns);
  object["beside"] = to_json(detail.beside);
  object["headers"] = detail.headers;
  object["payloadSize"] = detail.payload_size;
  if (detail.payload) {
    const bool text = is_valid_utf8(*detail.payload);
    object[text ? "payload" : "payloadHex"] = text ? *detail.payload : in_hex(*detail.payload);
    object["payloadComplete"] = detail.payload->size() >= detail.payload_size;
  }
  object["attemptHistory"] = nlohmann::ordered_json::array();
  for (const auto& attempt : detail.attempts) {
    object["attemptHistory"].push_back(
        {{"at", attempt.at}, {"outcome", attempt.outcome}, {"reason", attempt.reason}});
  }
  object["audit"] = to_json(detail.audit);
  return object;
}

void print_values(const char* title, const std::vector<NamedValue>& values) {
  if (values.empty()) return;
  print(fmt::format("\n{}\n", title));
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : values) {
    rows.push_back({"  " + printable(name, 100), value ? printable(*value, 1000) : "-"});
  }
  print_table(rows);
}

void print_audit(const std::vector<AuditRecord>& audit) {
  if (audit.empty()) return;
  print("\nAUDIT\n");
  std::vector<std::vector<std::string>> rows;
  for (const auto& entry : audit) {
    rows.push_back(
        {"  " + printable(entry.at), printable(entry.action), printable(entry.reason, 300)});
  }
  print_table(rows);
}

void print_history(const MessageDetail& detail) {
  if (!detail.attempts.empty()) {
    print("\nATTEMPTS\n");
    std::vector<std::vector<std::string>> rows;
    for (const auto& attempt : detail.attempts) {
      rows.push_back({"  " + printable(attempt.at), printable(attempt.outcome),
                      printable(attempt.reason, 300)});
    }
    print_table(rows);
  }
  print_audit(detail.audit);
}

void print_detail(const MessageDetail& detail, const RelayOptions& options) {
  const MessageSummary& message = detail.summary;
  print_table(
      {{"id", printable(message.id, 500)},
       {"event type", printable(message.event_type, 500)},
       {"key", message.ordering_key.empty() ? "-" : printable(message.ordering_key, 500)},
       {"state", state_words(message)},
       {"attempts", fmt::format("{}", message.attempts)},
       {"occurred on", printable(message.occurred_on)},
       {"last error", message.last_error.empty() ? "-" : printable(message.last_error, 1000)},
       {"payload", counted(detail.payload_size, "byte")},
       {"next", next_step(detail, options)}});
  print_values("COLUMNS OF THE OUTBOX", detail.columns);
  print_values("NOTED BESIDE IT BY THE RELAY", detail.beside);
  print_history(detail);
  if (!detail.payload) return;
  print("\nPAYLOAD\n");
  print(shown_payload(*detail.payload));
  if (detail.payload->size() < detail.payload_size) {
    say(fmt::format("only the first {} bytes are shown; `dead-letters export` writes whole ones",
                    detail.payload->size()));
  }
}

}  // namespace

int find_messages(const Config& config, const Backends& backends, const MessageOptions& options) {
  const auto desk = open_desk(config, backends);
  const auto messages = desk->messages(options.filter);
  if (!messages.ok()) return tell_failure(messages);
  print_messages(messages.value, options.output);
  tell_limit(messages.value.size(), options.filter.limit);
  if (messages.value.size() == options.filter.limit) return kDone;
  if (tell_missing("message", missing_ids(options.filter.ids, messages.value))) return kNotFound;
  if (messages.value.empty()) say("no message matches");
  return kDone;
}

namespace {

// Of a row that is gone, what was done to it may still be known.
int show_trail(OutboxDesk& desk, const MessageOptions& options) {
  const auto trail = desk.trail(options.id);
  if (!trail.ok()) return tell_failure(trail);
  if (trail.value.empty()) {
    say(fmt::format("no such message: {}", printable(options.id)));
    return kNotFound;
  }
  const std::string& id = trail.value.front().id;
  if (options.output == OutputFormat::table) {
    print_table({{"id", printable(id, 500)}, {"state", "gone: only its audit is left"}});
    print_audit(trail.value);
    return kDone;
  }
  const nlohmann::ordered_json object = {
      {"id", id}, {"state", "gone"}, {"audit", to_json(trail.value)}};
  print(dump(object, options.output == OutputFormat::json ? 2 : -1) + "\n");
  return kDone;
}

int show(const Config& config, const Backends& backends, const MessageOptions& options,
         bool dead_only) {
  const auto desk = open_desk(config, backends);
  auto found = desk->message(options.id, options.payload ? kPayloadMax : 0);
  if (!found.ok()) return tell_failure(found);
  if (found.value.empty() && !dead_only) return show_trail(*desk, options);
  std::erase_if(found.value, [&](const MessageDetail& detail) {
    return dead_only && detail.summary.state != MessageState::dead_lettered;
  });
  if (found.value.empty()) {
    say(fmt::format("no such dead letter: {}; outbox-relay messages show tells what became of it",
                    printable(options.id)));
    return kNotFound;
  }
  const RelayOptions& relay = config.settings.relay;
  if (options.output == OutputFormat::table) {
    for (const auto& detail : found.value) print_detail(detail, relay);
    return kDone;
  }
  std::vector<nlohmann::ordered_json> objects;
  for (const auto& detail : found.value) objects.push_back(to_json(detail, relay));
  if (objects.size() == 1 && options.output == OutputFormat::json) {
    print(dump(objects.front(), 2) + "\n");
  } else {
    print_json(objects, options.output);
  }
  return kDone;
}

}  // namespace

int show_message(const Config& config, const Backends& backends, const MessageOptions& options) {
  return show(config, backends, options, false);
}

int show_dead_letter(const Config& config, const Backends& backends,
                     const MessageOptions& options) {
  return show(config, backends, options, true);
}

}  // namespace outbox
