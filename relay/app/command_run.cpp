#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/log.h"
#include "relay/app/sidecar.h"
#include "relay/app/signals.h"

namespace outbox {
namespace {

// A sidecar is paid for by the Pod: few arenas, freed memory given back, small stacks.
void keep_memory_small() {
  constexpr int kKibibyte = 1024;
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 256 * kKibibyte);
  mallopt(M_TRIM_THRESHOLD, 512 * kKibibyte);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, 512 * kKibibyte);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

// In a Pod the host name is the Pod's.
std::string instance_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace

int run_relay(const Config& config, const Backends& backends) {
  keep_memory_small();
  try {
    Signals signals;
    Log log(config.settings.log, instance_name());
    Sidecar sidecar(config, backends, log);
    return sidecar.run(signals);
  } catch (const SettingsError& error) {
    std::fprintf(stderr, "outbox-relay: %s\n", error.what());
    return kBadConfiguration;
  }
}

}  // namespace outbox
