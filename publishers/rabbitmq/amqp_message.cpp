#include "publishers/rabbitmq/amqp_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <set>
#include <utility>

#include "publishers/wire/cloud_event.h"
#include "publishers/wire/fields.h"
#include "publishers/wire/structured_event.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kShortStringMax = 255;
constexpr const char* kAttributePrefix = "cloudEvents_";
constexpr std::array<std::string_view, 3> kReservedPrefixes = {"cloudevents_",
                                                               "cloudevents:", "outbox-"};

// The time is in UTC, as the store writes it.
std::optional<std::uint64_t> seconds_of(const std::string& rfc3339) {
  std::tm parts{};
  if (strptime(rfc3339.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return std::nullopt;
  const std::time_t seconds = timegm(&parts);
  if (seconds < 0) return std::nullopt;
  return static_cast<std::uint64_t>(seconds);
}

std::string short_string_defect(const char* what, const std::string& value) {
  if (value.size() > kShortStringMax) {
    return fmt::format("{} is longer than the {} bytes that AMQP has for it", what,
                       kShortStringMax);
  }
  if (!is_valid_utf8(value)) return fmt::format("{} is not valid UTF-8", what);
  if (value.find('\0') != std::string::npos) return fmt::format("{} has a NUL", what);
  return {};
}

std::string name_defect(const std::string& name) {
  if (name.empty()) return "its name is empty";
  const std::string lower = to_lower(name);
  // RabbitMQ would deliver the message to what stands in these.
  if (lower == "cc" || lower == "bcc") return "RabbitMQ routes by a header of that name";
  const auto starts = [&](std::string_view prefix) { return lower.starts_with(prefix); };
  if (std::ranges::any_of(kReservedPrefixes, starts)) return "the name is reserved for the relay";
  if (!is_valid_utf8(name)) return "its name is not valid UTF-8";
  return name.size() > kShortStringMax ? "its name is too long" : "";
}

std::string headers_defect(const std::vector<Header>& headers) {
  std::set<std::string_view> names;
  std::size_t bytes = 0;
  for (const auto& [name, value] : headers) {
    std::string why = name_defect(name);
    if (why.empty() && !names.insert(name).second) why = "it appears twice";
    if (why.empty() && !is_valid_utf8(value)) why = "its value is not valid UTF-8";
    if (!why.empty()) return fmt::format("the header {:.64}: {}", name, why);
    bytes += name.size() + value.size();
  }
  if (headers.size() > kHeadersMax || bytes > kHeadersBytesMax) {
    return fmt::format("more than {} headers, or more than {} bytes of them", kHeadersMax,
                       kHeadersBytesMax);
  }
  return {};
}

const Header* find_header(const std::vector<Header>& headers, std::string_view lower_name) {
  const auto found = std::ranges::find_if(
      headers, [&](const Header& header) { return to_lower(header.name) == lower_name; });
  return found == headers.end() ? nullptr : &*found;
}

}  // namespace

AmqpMessageBuilder::AmqpMessageBuilder(const PublisherSettings& settings)
    : envelope_(settings.envelope == "raw"                      ? Envelope::raw
                : settings.envelope == "cloudevents-structured" ? Envelope::structured
                                                                : Envelope::binary),
      source_(settings.source),
      exchange_(settings.exchange) {}

void AmqpMessageBuilder::address(const Publication& publication, AmqpMessage& message) const {
  const std::string& destination = publication.destination;
  const std::size_t slash = destination.find('/');
  message.exchange = slash == std::string::npos ? exchange_ : destination.substr(0, slash);
  message.routing_key = slash == std::string::npos ? destination : destination.substr(slash + 1);
  if (destination.empty()) message.routing_key = publication.message->event_type;
}

void AmqpMessageBuilder::add_headers(const Publication& publication, AmqpMessage& message) const {
  const Message& row = *publication.message;
  message.headers.push_back({"outbox-attempt", std::to_string(publication.attempt)});
  if (publication.redelivered) message.headers.push_back({"outbox-redelivered", "true"});
  message.headers.insert(message.headers.end(), row.headers.begin(), row.headers.end());
  if (envelope_ == Envelope::raw) return;
  for (Header& attribute : cloud_event_attributes(row, source_)) {
    if (attribute.name == "traceparent" && find_header(row.headers, "traceparent") == nullptr) {
      message.headers.push_back(attribute);
    }
    if (envelope_ == Envelope::structured) continue;
    message.headers.push_back({kAttributePrefix + attribute.name, std::move(attribute.value)});
  }
}

std::string AmqpMessageBuilder::defect(const Message& row, const AmqpMessage& message) const {
  if (row.id.empty()) return "the id is empty";
  for (const auto& [what, value] :
       {std::pair("the id", message.id), std::pair("the event type", message.type),
        std::pair("the exchange", message.exchange),
        std::pair("the routing key", message.routing_key),
        std::pair("the content type", message.content_type),
        std::pair("the correlation id", message.correlation_id)}) {
    if (std::string why = short_string_defect(what, value); !why.empty()) return why;
  }
  if (envelope_ != Envelope::raw) {
    if (std::string why = cloud_event_defect(row); !why.empty()) return why;
  }
  if (const std::string why = content_type_defect(content_type_of(row)); !why.empty()) {
    return fmt::format("the content type {}", why);
  }
  return headers_defect(row.headers);
}

AmqpMessage AmqpMessageBuilder::build(const Publication& publication) const {
  const Message& row = *publication.message;
  AmqpMessage message;
  address(publication, message);
  message.id = row.id;
  message.type = row.event_type;
  const bool structured = envelope_ == Envelope::structured;
  message.content_type = structured ? kStructuredContentType : content_type_of(row);
  if (const Header* correlation = find_header(row.headers, "correlation-id")) {
    message.correlation_id = correlation->value;
  }
  message.timestamp = seconds_of(row.occurred_on);
  message.error = defect(row, message);
  if (!message.error.empty()) return message;
  add_headers(publication, message);
  if (structured) {
    message.document = structured_event(row, source_);
  } else {
    message.payload = &row.payload;
  }
  return message;
}

}  // namespace outbox
