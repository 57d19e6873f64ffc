// A configuration written out.
#pragma once

#include <string>

#include "relay/app/config.h"

namespace outbox {

// All settings in force as a file that, read again, gives the same ones; but secrets are hidden.
// With `sources`, where each value comes from stands behind it as a comment.
std::string to_yaml(const Config& config, bool sources);

}  // namespace outbox
