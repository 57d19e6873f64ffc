// Publishes events as HTTP requests: cpp-httplib clients on keep-alive connections.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "publishers/http/client.h"
#include "publishers/http/credentials.h"
#include "publishers/http/endpoint.h"
#include "publishers/http/request.h"
#include "publishers/http/resolver.h"
#include "publishers/http/signing.h"
#include "publishers/http/tls.h"
#include "publishers/wire/publication_queue.h"
#include "relay/backends.h"
#include "relay/publisher.h"

namespace outbox {

// submit() only queues; each of `connections` threads owns a client and takes the next publication.
// An attempt ends, with its receipt, by the publish time-out. The destructor cancels what is queued
// and waits for the attempts that run. The clock and the sink outlive the publisher.
class HttpPublisher final : public Publisher {
 public:
  // The settings have passed the check.
  HttpPublisher(const PublisherSettings& settings, const Clock& clock, ReceiptSink& sink);
  ~HttpPublisher() override;
  HttpPublisher(const HttpPublisher&) = delete;
  HttpPublisher& operator=(const HttpPublisher&) = delete;

  std::size_t submit(std::span<const Publication> publications) override;
  void recall() override { queue_.recall(); }

 private:
  std::unique_ptr<HttpClient> new_client();
  void work();
  Receipt publish(std::unique_ptr<HttpClient>& client, const Publication& publication);
  Exchange exchange(std::unique_ptr<HttpClient>& client, const HttpRequest& request, Time deadline);
  void settle(const Exchange& exchange, Receipt& receipt) const;

  const PublisherSettings settings_;
  const Endpoint endpoint_;
  const RequestBuilder builder_;
  Signer signer_;
  Credentials credentials_;
  const Clock& clock_;
  std::unique_ptr<TlsContext> tls_;  // null for plain HTTP
  Resolver resolver_;

  PublicationQueue queue_;

  std::vector<std::thread> threads_;  // last: they use everything above
};

// All that is wrong with the settings, found without connecting. Reads the files that they name.
std::vector<SettingDefect> check_http_settings(const PublisherSettings& settings);

// Registers the schemes `http` and `https`.
void add_http_publisher(Backends& backends);

}  // namespace outbox
