#include "publishers/http/http_publisher.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "publishers/wire/quiet_thread.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

// No reason is longer; what a receiver's certificate or a name server says is not ours to bound.
constexpr std::size_t kReasonMax = 512;

WallTime wall_now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

std::string status_reason(const HttpAnswer& answer, const Judgement& judgement) {
  std::string reason = fmt::format("HTTP {}", answer.status);
  if (judgement.outcome == Outcome::throttled && judgement.wait > Duration::zero()) {
    const auto wait = std::chrono::duration_cast<std::chrono::seconds>(judgement.wait);
    reason += fmt::format(", asks to wait {}", wait);
  }
  if (answer.status >= 300 && answer.status < 400) reason += " (redirects are not followed)";
  return reason;
}

}  // namespace

HttpPublisher::HttpPublisher(const PublisherSettings& settings, const Clock& clock,
                             ReceiptSink& sink)
    : settings_(settings),
      endpoint_(parse_endpoint(settings.url).endpoint),
      builder_(settings_, endpoint_),
      signer_(settings.signing_key_file),
      credentials_(settings),
      clock_(clock),
      tls_(endpoint_.tls ? std::make_unique<TlsContext>(settings.tls, endpoint_.host) : nullptr),
      resolver_(endpoint_.host, endpoint_.port, settings.publish_timeout, clock),
      queue_(settings.queue_max, sink) {
  threads_.reserve(settings_.connections);
  for (std::size_t i = 0; i < settings_.connections; ++i) {
    threads_.push_back(start_quiet_thread([this] { work(); }));
  }
}

HttpPublisher::~HttpPublisher() {
  queue_.close();
  for (std::thread& thread : threads_) thread.join();
}

std::size_t HttpPublisher::submit(std::span<const Publication> publications) {
  return queue_.submit(publications);
}

std::unique_ptr<HttpClient> HttpPublisher::new_client() {
  return std::make_unique<HttpClient>(endpoint_, settings_, credentials_, tls_.get(), resolver_,
                                      clock_);
}

void HttpPublisher::work() {
  std::unique_ptr<HttpClient> client = new_client();
  Publication publication;
  while (queue_.take(publication)) queue_.report(publish(client, publication));
}

Receipt HttpPublisher::publish(std::unique_ptr<HttpClient>& client,
                               const Publication& publication) {
  Receipt receipt;
  receipt.ticket = publication.ticket;
  HttpRequest request = builder_.build(publication);
  if (!request.error.empty()) {
    receipt.outcome = Outcome::refused;
    receipt.reason = "not sent: " + request.error;
    return receipt;
  }
  const Time start = clock_.now();
  if (start > publication.start_by) {
    receipt.reason = "too late to start within the lease";
    return receipt;
  }
  std::string unsigned_because =
      signer_.sign(publication.message->id, wall_now(), request.body(), request.headers);
  if (!unsigned_because.empty()) {
    receipt.outcome = Outcome::misconfigured;
    receipt.reason = "not sent: " + unsigned_because;
    return receipt;
  }
  settle(exchange(client, request, start + settings_.publish_timeout), receipt);
  receipt.reason = cut_text(receipt.reason, kReasonMax);
  receipt.took = clock_.now() - start;
  return receipt;
}

// The library may throw, on memory or on an answer that it does not foresee. Its state is unknown
// then, so the client is replaced.
Exchange HttpPublisher::exchange(std::unique_ptr<HttpClient>& client, const HttpRequest& request,
                                 Time deadline) {
  try {
    return client->exchange(request, deadline);
  } catch (const std::exception&) {
    client = new_client();
    Exchange lost;
    lost.error = "the exchange broke off inside the HTTP library";
    lost.wrote = true;
    return lost;
  }
}

void HttpPublisher::settle(const Exchange& exchange, Receipt& receipt) const {
  receipt.sent = exchange.attempted;
  if (!exchange.attempted) {
    receipt.outcome = Outcome::misconfigured;
    receipt.reason = "not sent: " + exchange.error;
    return;
  }
  receipt.status = exchange.answer.status;
  const bool answered = exchange.answer.status != 0;
  const Judgement judgement = answered ? judge(exchange.answer, wall_now()) : Judgement{};
  receipt.outcome = judgement.outcome;
  receipt.wait = judgement.wait;
  receipt.outcome_unknown = !answered && exchange.wrote;
  if (judgement.outcome == Outcome::confirmed) return;
  std::string what = answered ? status_reason(exchange.answer, judgement) : exchange.error;
  if (!answered && exchange.timed_out) {
    what += fmt::format(" ({})", std::chrono::duration<double>(settings_.publish_timeout));
  }
  receipt.reason = fmt::format("{}: {}", endpoint_.label, what);
}

}  // namespace outbox
