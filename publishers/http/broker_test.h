// Connects to the receiver step by step, to tell what works and what does not.
#pragma once

#include <string>

#include "relay/backends.h"

namespace outbox {

// See PublisherBackend::test. Asks with OPTIONS, and with HEAD where that is not known.
BrokerTest test_http_broker(const PublisherSettings& settings, const Clock& clock);

}  // namespace outbox
