// Counting what waits.
#pragma once

#include "storage/postgres/desk.h"

namespace outbox::postgres {

Backlog count_backlog(Desk& desk);

}  // namespace outbox::postgres
