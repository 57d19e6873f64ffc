#include "publishers/http/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "publishers/http/signing.h"
#include "publishers/wire/cloud_event.h"
#include "publishers/wire/fields.h"
#include "publishers/wire/path.h"
#include "publishers/wire/structured_event.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

bool has_header(const std::vector<Header>& headers, std::string_view lower_name) {
  return std::ranges::any_of(
      headers, [&](const Header& header) { return to_lower(header.name) == lower_name; });
}

std::string id_defect(const Message& message) {
  if (message.id.empty()) return "the id is empty";
  const std::string why = header_value_defect(message.id);
  return why.empty() ? why : fmt::format("the id can't be an Idempotency-Key: it {}", why);
}

}  // namespace

RequestBuilder::RequestBuilder(const PublisherSettings& settings, const Endpoint& endpoint)
    : endpoint_(endpoint),
      envelope_(envelope_of(settings)),
      signed_(!settings.signing_key_file.empty()),
      source_(settings.source) {
  for (const auto& [name, value] : settings.headers) {
    configured_.push_back({name, value});
    configured_names_.push_back(to_lower(name));
  }
  for (const auto& [name, file] : settings.header_files) {
    configured_names_.push_back(to_lower(name));
  }
}

bool RequestBuilder::is_configured(std::string_view lower_name) const {
  return std::ranges::find(configured_names_, lower_name) != configured_names_.end();
}

RequestBuilder::Envelope RequestBuilder::envelope_of(const PublisherSettings& settings) {
  if (settings.envelope == "raw") return Envelope::raw;
  return settings.envelope == "cloudevents-structured" ? Envelope::structured : Envelope::binary;
}

std::string RequestBuilder::defect(const Message& message) const {
  if (std::string why = id_defect(message); !why.empty()) return why;
  if (signed_) {
    if (std::string why = webhook_id_defect(message.id); !why.empty()) return why;
  }
  if (envelope_ != Envelope::raw) {
    if (std::string why = cloud_event_defect(message); !why.empty()) return why;
  }
  if (const std::string why = content_type_defect(content_type_of(message)); !why.empty()) {
    return fmt::format("the content type {}", why);
  }
  return http_headers_defect(message.headers, configured_names_);
}

void RequestBuilder::add_attributes(const Message& message, std::vector<Header>& headers) const {
  for (Header& attribute : cloud_event_attributes(message, source_)) {
    if (attribute.name == "traceparent" && !has_header(message.headers, "traceparent") &&
        !is_configured("traceparent")) {
      headers.push_back({"traceparent", attribute.value});
    }
    if (envelope_ == Envelope::structured) continue;
    headers.push_back({"ce-" + attribute.name, percent_encode_attribute(attribute.value)});
  }
}

HttpRequest RequestBuilder::build(const Publication& publication) const {
  const Message& message = *publication.message;
  HttpRequest request;
  Path path = append_destination(endpoint_.path, publication.destination);
  request.error = path.error.empty() ? defect(message) : std::move(path.error);
  if (!request.error.empty()) return request;
  request.path = std::move(path.text) + endpoint_.query;
  request.payload = &message.payload;
  const bool structured = envelope_ == Envelope::structured;
  if (structured) request.envelope = structured_event(message, source_);
  std::vector<Header>& headers = request.headers;
  headers.reserve(16 + message.headers.size() + configured_.size());
  headers.push_back({"Host", endpoint_.authority});
  headers.push_back({"Content-Type",
                     std::string(structured ? kStructuredContentType : content_type_of(message))});
  headers.push_back({"Idempotency-Key", message.id});
  headers.push_back({"Outbox-Attempt", std::to_string(publication.attempt)});
  if (publication.redelivered) headers.push_back({"Outbox-Redelivered", "true"});
  if (envelope_ != Envelope::raw) add_attributes(message, headers);
  headers.insert(headers.end(), configured_.begin(), configured_.end());
  headers.insert(headers.end(), message.headers.begin(), message.headers.end());
  if (!has_header(message.headers, "user-agent") && !is_configured("user-agent")) {
    headers.push_back({"User-Agent", "outbox-relay"});
  }
  return request;
}

}  // namespace outbox
