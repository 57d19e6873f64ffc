// The command line: subcommands, flags, help.
#pragma once

#include "relay/backends.h"

namespace outbox {

// Reads the arguments and does what they ask. Returns the exit code.
int run_command_line(int argc, const char* const* argv, const Backends& backends);

}  // namespace outbox
