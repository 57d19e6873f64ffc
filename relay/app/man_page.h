// The man page outbox-relay(1).
#pragma once

#include <string>

#include "relay/app/command_tree.h"

namespace outbox {

// In the man macros of roff.
std::string man_page(const CommandNode& root, const std::string& version);

}  // namespace outbox
