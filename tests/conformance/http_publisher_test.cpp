// HTTP as a broker: the suite, and what goes over the wire.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "publishers/wire/fields.h"
#include "publishers/wire/text.h"
#include "tests/conformance/http_test_support.h"

namespace outbox::testing {

namespace {

std::string percent_decoded(const std::string& text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '%') {
      bytes += static_cast<char>(std::stoi(text.substr(at + 1, 2), nullptr, 16));
      at += 2;
    } else {
      bytes += text[at];
    }
  }
  return bytes;
}

// The headers that are not the relay's or the protocol's.
std::vector<Header> row_headers(const RawRequest& request) {
  constexpr std::array<std::string_view, 11> kOurs = {
      "Host",        "Content-Type",    "Content-Length", "Accept",
      "User-Agent",  "Idempotency-Key", "Outbox-Attempt", "Outbox-Redelivered",
      "traceparent", "Authorization",   "Connection"};
  std::vector<Header> headers;
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("ce-") || std::ranges::find(kOurs, name) != kOurs.end()) continue;
    headers.push_back({name, value});
  }
  return headers;
}

Arrival binary_arrival(const RawRequest& request) {
  Arrival arrival;
  arrival.id = request.header("Idempotency-Key");
  arrival.event_type = percent_decoded(request.header("ce-type"));
  arrival.key = percent_decoded(request.header("ce-subject"));
  arrival.payload = request.body;
  return arrival;
}

Arrival structured_arrival(const RawRequest& request) {
  const nlohmann::json event = nlohmann::json::parse(request.body);
  CHECK(request.header("Content-Type") == "application/cloudevents+json");
  CHECK(event.at("id") == request.header("Idempotency-Key"));
  Arrival arrival;
  arrival.id = event.at("id");
  arrival.event_type = event.at("type");
  arrival.key = event.at("subject");
  if (event.contains("data_base64")) {
    arrival.payload = base64_decoded(std::string(event.at("data_base64"))).value();
  } else if (event.contains("data")) {  // as it stands there, since parsing would change numbers
    const std::string mark = ",\"data\":";
    arrival.payload = request.body.substr(request.body.find(mark) + mark.size());
    arrival.payload.pop_back();
  }
  return arrival;
}

class HttpBroker final : public BrokerUnderTest {
 public:
  explicit HttpBroker(std::string envelope = "cloudevents-binary")
      : envelope_(std::move(envelope)), server_([this](Peer& peer) { serve(peer); }) {}
  ~HttpBroker() override { resume(); }

  PublisherSettings settings() override {
    PublisherSettings settings = http_settings(server_.url("/inbox"));
    settings.connections = 4;
    settings.envelope = envelope_;
    return settings;
  }
  std::unique_ptr<Publisher> open(const PublisherSettings& settings, const Clock& clock,
                                  ReceiptSink& sink) override {
    Backends backends;
    add_http_publisher(backends);
    return backends.publishers.at("http").open(settings, clock, sink);
  }
  std::vector<Arrival> arrivals() override {
    std::vector<Arrival> arrivals;
    for (const RawRequest& request : log_.all()) {
      Arrival arrival =
          envelope_ == "cloudevents-binary" ? binary_arrival(request) : structured_arrival(request);
      arrival.headers = row_headers(request);
      arrivals.push_back(std::move(arrival));
    }
    return arrivals;
  }
  bool stall() override {
    const std::lock_guard lock(mutex_);
    stalled_ = true;
    return true;
  }
  void resume() override {
    const std::lock_guard lock(mutex_);
    stalled_ = false;
    changed_.notify_all();
  }
  bool disconnect() override {
    resume();
    server_.stop();
    return true;
  }
  bool make_unsendable(Message& message) override {
    message.headers.push_back({"X-Bad", "one\r\nX-Injected: yes"});
    return true;
  }

 private:
  void serve(Peer& peer) {
    RawRequest request;
    while (peer.read_request(request)) {
      log_.add(request);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !stalled_; });
      lock.unlock();
      peer.answer(202);
    }
    CHECK(peer.malformed.empty());
  }

  const std::string envelope_;
  RequestLog log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stalled_ = false;
  RawServer server_;  // last: it uses everything above
};

}  // namespace

TEST_CASE("http keeps what a publisher promises") {
  check_publisher([] { return std::make_unique<HttpBroker>(); });
}

TEST_CASE("http keeps the same with structured events") {
  check_publisher([] { return std::make_unique<HttpBroker>("cloudevents-structured"); });
}

TEST_CASE("a row goes out as a CloudEvent in binary mode") {
  RequestLog log;
  RawServer server(accept_all(log));
  HttpSender sender(http_settings(server.url("/inbox?tenant=7")));
  Message message = make_message("id \"1\" 100%");
  message.ordering_key = "M\xC3\xBCnchen";
  Publication publication = publication_of(message, 1);
  publication.destination = "orders/new \xC3\xBC/a;b";
  publication.attempt = 3;
  publication.redelivered = true;
  REQUIRE(sender.publish(publication).outcome == Outcome::confirmed);
  const RawRequest request = log.all().at(0);
  CHECK(request.request_line == "POST /inbox/orders/new%20%C3%BC/a%3Bb?tenant=7 HTTP/1.1");
  CHECK(request.header("ce-specversion") == "1.0");
  CHECK(request.header("ce-id") == "id%20%221%22%20100%25");
  CHECK(request.header("ce-type") == "order.created");
  CHECK(request.header("ce-source") == "/test/outbox");
  CHECK(request.header("ce-time") == "2024-05-06T07:08:09.123Z");
  CHECK(request.header("ce-subject") == "M%C3%BCnchen");
  CHECK(request.header("ce-datacontenttype") == "(none)");
  CHECK(request.header("ce-traceparent") == *message.traceparent);
  CHECK(request.header("traceparent") == *message.traceparent);
  CHECK(request.header("Content-Type") == "application/json");
  CHECK(request.header("Idempotency-Key") == "id \"1\" 100%");
  CHECK(request.header("Outbox-Attempt") == "3");
  CHECK(request.header("Outbox-Redelivered") == "true");
  CHECK(request.header("Host") == "127.0.0.1:" + std::to_string(server.port()));
  CHECK(request.header("User-Agent") == "outbox-relay");
  CHECK(request.header("Transfer-Encoding") == "(none)");
  CHECK(request.body == message.payload);
}

TEST_CASE("what a row does not have is not sent") {
  RequestLog log;
  RawServer server(accept_all(log));
  HttpSender sender(http_settings(server.url()));
  Message message;
  message.id = "bare";
  message.event_type = "t";
  message.traceparent = "00-00000000000000000000000000000000-b7ad6b7169203331-01";  // all zero
  REQUIRE(sender.publish(message).outcome == Outcome::confirmed);
  const RawRequest request = log.all().at(0);
  CHECK(request.header("ce-subject") == "(none)");
  CHECK(request.header("ce-time") == "(none)");
  CHECK(request.header("ce-traceparent") == "(none)");
  CHECK(request.header("traceparent") == "(none)");
  CHECK(request.header("Outbox-Redelivered") == "(none)");
  CHECK(request.header("Content-Type") == "application/json");
  CHECK(request.header("Content-Length") == "0");
}

TEST_CASE("raw sends the body, its type and the row's headers, and no CloudEvents attribute") {
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url("/hook"));
  settings.envelope = "raw";
  settings.source.clear();
  settings.headers = {{"X-Api-Key", "k"}};
  HttpSender sender(settings);
  Message message = make_message("one");
  message.content_type = "text/plain; charset=utf-8";
  REQUIRE(sender.publish(message).outcome == Outcome::confirmed);
  const RawRequest request = log.all().at(0);
  for (const auto& [name, value] : request.headers) CHECK_FALSE(name.starts_with("ce-"));
  CHECK(request.header("traceparent") == "(none)");
  CHECK(request.header("Content-Type") == "text/plain; charset=utf-8");
  CHECK(request.header("Idempotency-Key") == "one");
  CHECK(request.header("X-Tenant") == "acme");
  CHECK(request.header("X-Api-Key") == "k");
}

TEST_CASE("a header value arrives byte for byte or the row is refused unsent") {
  struct Row {
    std::string value;
    bool sendable;
  };
  const std::vector<Row> table = {
      {"", true},
      {"plain", true},
      {"inner  spaces", true},
      {"%0d%0aX-Injected: 1", true},  // text, not a line break
      {"a%00b", true},
      {"gr\xC3\xBC\xC3\x9F", true},
      {"\xF0\x9F\x98\x80", true},
      {"quote\"s and, commas; and = signs", true},
      {": leading colon", true},
      {std::string(kHeaderValueMax, 'v'), true},
      {std::string(kHeaderValueMax + 1, 'v'), false},
      {" leading", false},
      {"trailing ", false},
      {"tab\there", false},
      {"line\nbreak", false},
      {"line\r\nX-Injected: 1", false},
      {"carriage\rreturn", false},
      {std::string("nul\0byte", 8), false},
      {"delete\x7F", false},
      {"next line \xC2\x85", false},
      {"broken \xC3\x28", false},
      {"surrogate \xED\xA0\x80", false},
      {"overlong \xC0\x8A", false},
  };
  RequestLog log;
  RawServer server(accept_all(log));
  HttpSender sender(http_settings(server.url()));
  for (const Row& row : table) {
    CAPTURE(row.value);
    Message message = make_message("one");
    message.headers = {{"X-Value", row.value}};
    const std::size_t before = log.count();
    const Receipt receipt = sender.publish(message);
    if (!row.sendable) {
      CHECK(receipt.outcome == Outcome::refused);
      CHECK_FALSE(receipt.sent);
      CHECK(contains(receipt.reason, "X-Value"));
      CHECK(log.count() == before);
      continue;
    }
    CHECK(receipt.outcome == Outcome::confirmed);
    REQUIRE(log.count() == before + 1);
    const RawRequest request = log.all().back();
    CHECK(request.header("X-Value") == row.value);
    CHECK(request.header("X-Injected") == "(none)");
  }
  CHECK(server.connections() == 1);
}

TEST_CASE("a payload arrives byte for byte") {
  RequestLog log;
  RawServer server(accept_all(log));
  HttpSender sender(http_settings(server.url()));
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  for (const std::string& payload :
       {std::string{}, all_bytes, std::string("\r\n\r\n"), std::string(3 * 1024 * 1024, '\0')}) {
    Message message = make_message("one");
    message.payload = payload;
    REQUIRE(sender.publish(message).outcome == Outcome::confirmed);
    CHECK((log.all().back().body == payload));
  }
}

TEST_CASE("each status means what the table of outcomes says") {
  struct Row {
    int status;
    Outcome outcome;
  };
  const std::vector<Row> table = {
      {200, Outcome::confirmed},     {201, Outcome::confirmed},     {202, Outcome::confirmed},
      {204, Outcome::confirmed},     {299, Outcome::confirmed},     {300, Outcome::misconfigured},
      {301, Outcome::misconfigured}, {304, Outcome::misconfigured}, {400, Outcome::refused},
      {401, Outcome::misconfigured}, {403, Outcome::misconfigured}, {404, Outcome::misconfigured},
      {405, Outcome::misconfigured}, {407, Outcome::misconfigured}, {408, Outcome::transport},
      {409, Outcome::conflict},      {410, Outcome::misconfigured}, {411, Outcome::refused},
      {413, Outcome::refused},       {415, Outcome::refused},       {422, Outcome::refused},
      {425, Outcome::transport},     {429, Outcome::throttled},     {499, Outcome::refused},
      {500, Outcome::transport},     {502, Outcome::transport},     {503, Outcome::transport},
      {504, Outcome::transport},     {599, Outcome::transport},     {101, Outcome::transport},
      {600, Outcome::transport},     {999, Outcome::transport},
  };
  std::atomic<int> status = 0;
  RequestLog log;
  RawServer server([&](Peer& peer) {
    RawRequest request;
    while (peer.read_request(request)) {
      log.add(request);
      peer.answer(status, "", status == 204 || status == 304 ? "" : "secret body");
    }
  });
  HttpSender sender(http_settings(server.url()));
  const Message message = make_message("one");
  for (const Row& row : table) {
    CAPTURE(row.status);
    status = row.status;
    const std::size_t before = log.count();
    const Receipt receipt = sender.publish(message);
    CHECK(receipt.outcome == row.outcome);
    CHECK(receipt.sent);
    CHECK_FALSE(receipt.outcome_unknown);
    CHECK(log.count() == before + 1);
    CHECK_FALSE(contains(receipt.reason, "secret body"));
    if (row.outcome == Outcome::confirmed) continue;
    CHECK(contains(receipt.reason, "HTTP " + std::to_string(row.status)));
    CHECK(contains(receipt.reason, "127.0.0.1:" + std::to_string(server.port())));
  }
}

TEST_CASE("a receiver that asks to wait is heard") {
  RequestLog log;
  RawServer server([&](Peer& peer) {
    RawRequest request;
    while (peer.read_request(request)) {
      log.add(request);
      const std::string asked = request.header("X-Answer");
      peer.answer(
          std::stoi(asked.substr(0, 3)),
          asked.substr(3) == ""
              ? ""
              : "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: " + asked.substr(4) + "\r\n");
    }
  });
  HttpSender sender(http_settings(server.url()));
  const auto ask = [&](const std::string& answer) {
    Message message = make_message("one");
    message.headers = {{"X-Answer", answer}};
    return sender.publish(message);
  };
  CHECK(ask("429").wait == Duration::zero());
  CHECK(ask("429 7").wait == std::chrono::seconds{7});
  CHECK(ask("503 7").outcome == Outcome::throttled);
  CHECK(ask("503 7").wait == std::chrono::seconds{7});
  CHECK(ask("503 Sun, 06 Nov 1994 08:49:57 GMT").wait == std::chrono::seconds{20});
  CHECK(ask("429 86400").wait == std::chrono::hours{1});
  CHECK(ask("503 soon").outcome == Outcome::transport);
}

TEST_CASE("a redirect is not followed") {
  RequestLog elsewhere_log;
  RawServer elsewhere(accept_all(elsewhere_log));
  RequestLog log;
  RawServer server([&](Peer& peer) {
    RawRequest request;
    while (peer.read_request(request)) {
      log.add(request);
      peer.answer(307, "Location: " + elsewhere.url("/taken") + "\r\n");
    }
  });
  HttpSender sender(http_settings(server.url()));
  const Receipt receipt = sender.publish(make_message("one"));
  CHECK(receipt.outcome == Outcome::misconfigured);
  CHECK(contains(receipt.reason, "redirects are not followed"));
  CHECK(log.count() == 1);
  CHECK(elsewhere.connections() == 0);
}

TEST_CASE("the environment's proxy is not used") {
  RequestLog log;
  RawServer server(accept_all(log));
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  ::setenv("HTTP_PROXY", "http://127.0.0.1:1", 1);
  HttpSender sender(http_settings(server.url()));
  CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  ::unsetenv("http_proxy");
  ::unsetenv("HTTP_PROXY");
  CHECK(log.count() == 1);
}

}  // namespace outbox::testing
