// Counting what waits.
#pragma once

#include "storage/sqlite/desk.h"

namespace outbox::sqlite {

Backlog count_backlog(Desk& desk);

}  // namespace outbox::sqlite
