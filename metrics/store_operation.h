// What is done at the database, as the metrics' label `operation` names it.
#pragma once

namespace outbox {

enum class StoreOperation {
  turn,     // the relay's transactions
  settle,   // one row's state within a turn: it can fail alone, but takes no time of its own
  sample,   // counting the backlog
  command,  // what an operator asked or ordered
};

const char* name_of(StoreOperation operation);

}  // namespace outbox
