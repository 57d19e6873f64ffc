// Tells how far one gets with a RabbitMQ broker.
#pragma once

#include <optional>

#include "relay/backends.h"

namespace outbox {

// Connects, logs in and looks for the exchange; delivers nothing. Ends by the publish time-out.
BrokerTest test_rabbitmq_broker(const PublisherSettings& settings, const Clock& clock);

// What to do about a test event that ended so; nothing if that can't be told.
std::optional<Finding> explain_rabbitmq_receipt(const PublisherSettings& settings,
                                                const Receipt& receipt);

}  // namespace outbox
