#include "storage/postgres/host_addresses.h"

#include <fmt/format.h>
#include <netdb.h>
#include <resolv.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace outbox::postgres {
namespace {

constexpr int kPatience = 5;  // seconds for each name server

struct FreeList {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

HostAddresses look_up(const std::string& host, int flags) {
  HostAddresses result;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, FreeList> list(found);
  if (code != 0) {
    const std::string why = code == EAI_SYSTEM ? std::system_category().message(errno)
                                               : std::string(::gai_strerror(code));
    result.problem = fmt::format("the name {} can't be resolved: {}", host, why);
    return result;
  }
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      result.addresses.emplace_back(text.data());
    }
  }
  if (result.addresses.empty()) result.problem = fmt::format("the name {} has no address", host);
  return result;
}

// On a thread that ends by itself: it takes no signals, and each name server, of which the list is
// read anew, is asked once.
HostAddresses look_up_patiently(const std::string& host) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  if (::res_init() == 0) {
    _res.retrans = kPatience;
    _res.retry = 1;
  }
  return look_up(host, 0);
}

bool is_path(const std::string& host) { return host.starts_with('/') || host.starts_with('@'); }

}  // namespace

HostAddresses addresses_of(const std::string& host, std::chrono::steady_clock::time_point until) {
  if (is_path(host) || !look_up(host, AI_NUMERICHOST).addresses.empty()) return {{""}, {}};
  std::packaged_task<HostAddresses()> task([host] { return look_up_patiently(host); });
  std::future<HostAddresses> found = task.get_future();
  std::thread(std::move(task)).detach();
  if (found.wait_until(until) == std::future_status::ready) return found.get();
  return {{}, fmt::format("the name {} was not resolved in time", host)};
}

}  // namespace outbox::postgres
