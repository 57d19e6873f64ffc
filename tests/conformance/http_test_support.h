// What the tests of the HTTP publisher share.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "publishers/http/http_publisher.h"
#include "relay/app/boot_clock.h"
#include "tests/conformance/publisher_conformance.h"
#include "tests/conformance/raw_http_server.h"
#include "tests/temporary_folder.h"

namespace outbox::testing {

// Settings for a server of ours: short waits, one connection.
inline PublisherSettings http_settings(const std::string& url) {
  PublisherSettings settings;
  settings.url = url;
  settings.source = "/test/outbox";
  settings.publish_timeout = std::chrono::seconds{5};
  settings.connections = 1;
  return settings;
}

// A publisher with its clock and sink; publishes one message at a time.
class HttpSender {
 public:
  explicit HttpSender(const PublisherSettings& settings)
      : publisher_(std::make_unique<HttpPublisher>(settings, clock_, sink_)) {}

  Receipt publish(const Message& message) { return publish(publication_of(message, next_)); }
  Receipt publish(Publication publication) {
    publication.ticket = next_++;
    if (publisher_->submit(std::span(&publication, 1)) != 1) return {};
    sink_.wait_for(publication.ticket);
    return sink_.only(publication.ticket);
  }
  void close() { publisher_.reset(); }
  std::size_t receipts() const { return sink_.count(); }

 private:
  const BootClock clock_;
  RecordingSink sink_;
  Ticket next_ = 1;
  std::unique_ptr<HttpPublisher> publisher_;
};

// Serves a connection by logging each request and answering 202.
inline RawServer::Serve accept_all(RequestLog& log) {
  return [&log](Peer& peer) {
    RawRequest request;
    while (peer.read_request(request)) {
      log.add(request);
      peer.answer(202);
    }
  };
}

// Serves each connection by answering every request with these bytes, then going on.
inline RawServer::Serve answer_with(std::string bytes) {
  return [bytes = std::move(bytes)](Peer& peer) {
    RawRequest request;
    while (peer.read_request(request)) peer.send(bytes);
  };
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What becomes of one message at a publisher of its own.
inline Receipt publish_to(const PublisherSettings& settings) {
  REQUIRE(describe(check_http_settings(settings)) == "");
  return HttpSender(settings).publish(make_message("one"));
}

// The file that this setting names is needed: without it nothing is sent, and it is named; when it
// is there, the next attempt goes out.
inline void check_needs_file(std::string PublisherSettings::*file, const std::string& text) {
  const TemporaryFolder folder;
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url());
  settings.*file = folder.file("missing");
  HttpSender sender(settings);
  const Receipt receipt = sender.publish(make_message("one"));
  CHECK(receipt.outcome == Outcome::misconfigured);
  CHECK_FALSE(receipt.sent);
  CHECK(contains(receipt.reason, settings.*file));
  CHECK(server.connections() == 0);
  folder.write("missing", text);
  CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  CHECK(log.count() == 1);
}

}  // namespace outbox::testing
