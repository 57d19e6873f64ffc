// A publication as an HTTP request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "publishers/http/endpoint.h"
#include "relay/backends.h"
#include "relay/publisher.h"

namespace outbox {

struct HttpRequest {
  std::string method = "POST";
  std::string path;  // with the query
  std::vector<Header> headers;
  const std::string* payload = nullptr;  // the message's own; alive until its receipt. Null: none
  std::string envelope;                  // what goes out in its place; empty if it goes out itself
  std::string error;                     // why the row can't be sent as it is; empty if it can

  std::string_view body() const {
    if (!envelope.empty() || payload == nullptr) return envelope;
    return *payload;
  }
};

// Pure: builds the same request for the same publication, but for the attempt headers. Safe from
// any thread. The endpoint outlives it.
//
// cloudevents-binary sends the attributes as ce-* headers, percent-encoded, and the trace context
// twice: as the ce-traceparent extension and as the plain W3C header, which the extension's
// specification wants to agree on a single hop. A row header called traceparent is passed on as it
// is and takes the place of the plain one. cloudevents-structured sends attributes and payload as
// one JSON document. raw sends the body, its type and the row's headers.
//
// Signatures are made elsewhere, because they change with time; but an id that can't be signed is
// refused here.
class RequestBuilder {
 public:
  RequestBuilder(const PublisherSettings& settings, const Endpoint& endpoint);

  HttpRequest build(const Publication& publication) const;

 private:
  enum class Envelope { raw, binary, structured };

  static Envelope envelope_of(const PublisherSettings& settings);
  std::string defect(const Message& message) const;
  bool is_configured(std::string_view lower_name) const;
  void add_attributes(const Message& message, std::vector<Header>& headers) const;

  const Endpoint& endpoint_;
  const Envelope envelope_;
  const bool signed_;
  const std::string source_;
  std::vector<Header> configured_;
  std::vector<std::string> configured_names_;  // lower case; with those that have files
};

}  // namespace outbox
