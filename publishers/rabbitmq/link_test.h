// Tells how far one gets with a RabbitMQ broker.
#pragma once

#include "relay/backends.h"

namespace outbox {

// Connects, logs in and looks for the exchange; delivers nothing. Ends by the publish time-out.
BrokerTest test_rabbitmq_broker(const PublisherSettings& settings, const Clock& clock);

}  // namespace outbox
