// The demonstration without a keyboard: it breaks and mends by itself, and checks what it promises.
#pragma once

#include "relay/app/demo_stage.h"

namespace outbox {

// Prints plain lines to stdout. Returns 0 when everything it promises happened, else 1.
int tell_story(DemoStage& stage, const DemoSettings& settings);

// What is left to say at the end of either form: what was written, what arrived, what was left.
void print_summary(const DemoStage& stage, int relay_exit_code);

}  // namespace outbox
