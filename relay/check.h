// Invariants: facts that only a bug can break. They stay on in release builds, because a relay that
// stops loses nothing: its leases end and another process goes on.
#pragma once

#include <cstdio>
#include <cstdlib>

#define RELAY_CHECK(fact)                                                                     \
  do {                                                                                        \
    if (!(fact)) {                                                                            \
      std::fprintf(stderr, "outbox-relay: %s:%d: broken invariant: %s\n", __FILE__, __LINE__, \
                   #fact);                                                                    \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)
