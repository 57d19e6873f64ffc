// Connects to the receiver step by step, to tell what works and what does not.
#pragma once

#include <optional>

#include "relay/backends.h"

namespace outbox {

// See PublisherBackend::test. Asks with OPTIONS, and with HEAD where that is not known.
BrokerTest test_http_broker(const PublisherSettings& settings, const Clock& clock);

// See PublisherBackend::explain.
std::optional<Finding> explain_http_receipt(const PublisherSettings& settings,
                                            const Receipt& receipt);

}  // namespace outbox
