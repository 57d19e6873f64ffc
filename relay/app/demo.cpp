#include "relay/app/demo.h"

#include <cstdio>

namespace outbox {

int run_demo(const DemoOptions&) {
  std::fputs("demo: not built yet\n", stderr);
  return 1;
}

}  // namespace outbox
