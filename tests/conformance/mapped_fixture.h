// An outbox in somebody else's table, for the suite that every store passes.
#pragma once

#include <string>

#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {

// A table and how it is mapped.
struct TableShape {
  std::string create;
  StoreSettings settings;  // table, preset, columns, states, times
  std::string insert;      // ?1 id, event type, payload, key, destination, content type, headers,
                           // traceparent, time, ?10 not before
  std::string key;         // the column of the id, as SQL
  std::string state;       // the state's name by the table's own columns, as SQL
  std::string retry_count;
  std::string last_error;
  std::string processed;  // the time
  bool writable = true;   // a verdict changes the row
};

class MappedFixture : public DatabaseFixture {
 public:
  explicit MappedFixture(TableShape shape);

  void insert(const NewRow& row) override { insert_by(shape_.insert, row); }
  void remove(const std::string& id) override;
  // What stands beside a row counts for what its own columns say.
  RowState read(const std::string& id) override;
  void refuse_changes(const std::string& id) override;
  bool writes_rows() const override { return shape_.writable; }
  std::string column(const std::string& name) const override;
  StoreSettings settings() const override;

 private:
  std::string table() const;

  const TableShape shape_;
};

}  // namespace outbox::conformance
