#include "publishers/null/null_publisher.h"

namespace outbox {

namespace {

std::vector<SettingDefect> check_settings(const PublisherSettings& settings) {
  if (settings.url == "null:" || settings.url == "null://") return {};
  return {{"url", "has something behind null:, which takes nothing"}};
}

}  // namespace

std::size_t NullPublisher::submit(std::span<const Publication> publications) {
  for (const Publication& publication : publications) {
    Receipt receipt;
    receipt.ticket = publication.ticket;
    if (clock_.now() > publication.start_by) {
      receipt.outcome = Outcome::cancelled;
      receipt.reason = "too late to start within the lease";
    } else {
      receipt.outcome = Outcome::confirmed;
      receipt.sent = true;
    }
    sink_.deliver(std::move(receipt));
  }
  return publications.size();
}

void add_null_publisher(Backends& backends) {
  PublisherBackend backend;
  backend.check = check_settings;
  backend.open = [](const PublisherSettings& settings, const Clock& clock, ReceiptSink& sink) {
    const auto defects = check_settings(settings);
    if (!defects.empty()) throw SettingsError(describe(defects));
    return std::unique_ptr<Publisher>(std::make_unique<NullPublisher>(clock, sink));
  };
  backends.publishers["null"] = std::move(backend);
}

}  // namespace outbox
