#include "relay/app/broker_files.h"

#include <algorithm>

namespace outbox {
namespace {

bool names_a_file(const PublisherSettings& settings) {
  const TlsSettings& tls = settings.tls;
  return !settings.password_file.empty() || !settings.bearer_token_file.empty() ||
         !settings.signing_key_file.empty() || !settings.header_files.empty() ||
         !tls.ca_file.empty() || !tls.cert_file.empty() || !tls.key_file.empty();
}

}  // namespace

BrokerFiles::BrokerFiles(const PublisherBackend& backend, const Settings& settings, Log& log,
                         const Clock& clock)
    : backend_(backend), settings_(settings), log_(log), clock_(clock) {
  if (names_a_file(settings.publisher)) due_ = clock.now() + kEvery;
}

std::optional<Duration> BrokerFiles::wait() const {
  if (!due_) return std::nullopt;
  return std::max(*due_ - clock_.now(), Duration{0});
}

void BrokerFiles::on_time() {
  if (!due_ || clock_.now() < *due_) return;
  const std::string prefix = "brokers." + settings_.broker + ".";
  std::set<std::string> bad;
  for (const auto& defect : backend_.check(settings_.publisher)) {
    if (defect.file.empty()) continue;
    const std::string path = prefix + defect.setting;
    if (!bad.insert(path).second || bad_.contains(path)) continue;
    log_.warn("a file of the broker can't be used: what was read before stays in use",
              {{"path", path}, {"file", defect.file}, {"error", defect.text}});
  }
  for (const auto& path : bad_) {
    if (!bad.contains(path)) log_.info("a file of the broker can be used again", {{"path", path}});
  }
  bad_ = std::move(bad);
  due_ = clock_.now() + kEvery;
}

}  // namespace outbox
