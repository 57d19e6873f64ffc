#include "publishers/http/resolver.h"

#include <fmt/format.h>
#include <netdb.h>
#include <resolv.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "publishers/wire/quiet_thread.h"

namespace outbox {

namespace {

struct AddressListDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Reads the name servers anew, as they may have changed, and makes this thread's lookups ask each
// of them once and not for longer than an attempt may take. The settings belong to the thread.
void limit_lookups(Duration patience) {
  if (::res_init() != 0) return;
  const auto whole_seconds = std::chrono::ceil<std::chrono::seconds>(patience).count();
  _res.retrans = static_cast<int>(std::clamp<long long>(whole_seconds, 1, 5));
  _res.retry = 1;
}

}  // namespace

Resolver::Resolver(std::string host, std::uint16_t port, Duration patience, const Clock& clock)
    : host_(std::move(host)),
      port_(port),
      patience_(patience),
      clock_(clock),
      numeric_(look_up(AI_NUMERICHOST)) {
  if (numeric_.addresses.empty()) thread_ = start_quiet_thread([this] { work(); });
}

Resolver::~Resolver() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Resolution Resolver::resolve(Time deadline) {
  if (!numeric_.addresses.empty()) return numeric_;
  std::unique_lock lock(mutex_);
  const std::uint64_t before = finished_;
  wanted_ = true;
  changed_.notify_all();
  while (finished_ == before) {
    const Duration left = deadline - clock_.now();
    if (left <= Duration::zero()) {
      return {{}, fmt::format("the name {} was not resolved in time", host_)};
    }
    changed_.wait_for(lock, left);
  }
  return latest_;
}

void Resolver::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || wanted_; });
    if (stopping_) return;
    lock.unlock();
    limit_lookups(patience_);
    Resolution resolution = look_up(0);
    lock.lock();
    latest_ = std::move(resolution);
    ++finished_;
    wanted_ = false;
    changed_.notify_all();
  }
}

Resolution Resolver::look_up(int flags) const {
  Resolution resolution;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host_.c_str(), std::to_string(port_).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, AddressListDeleter> list(found);
  if (result != 0) {
    const std::string why = result == EAI_SYSTEM ? std::system_category().message(errno)
                                                 : std::string(::gai_strerror(result));
    resolution.error = fmt::format("the name {} can't be resolved: {}", host_, why);
    return resolution;
  }
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Address& address = resolution.addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
  }
  return resolution;
}

}  // namespace outbox
