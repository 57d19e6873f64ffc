// The application: commits rows.
#pragma once

#include <functional>

#include "relay/random.h"
#include "tests/sim/model/context.h"

namespace outbox::sim {

class Writer {
 public:
  // `committed` is called after each transaction.
  Writer(Context& context, std::function<void()> committed);

  void start();
  std::size_t written() const { return written_; }

 private:
  void plan();
  void commit();
  Row next_row();
  RowKind next_kind();

  Context& context_;
  std::function<void()> committed_;
  Random random_;
  std::size_t written_ = 0;
};

}  // namespace outbox::sim
