// Tables as nobody would make them on purpose.
#include <fmt/format.h>

#include "storage/postgres/candidates.h"
#include "tests/conformance/postgres_foreign_table.h"

namespace outbox::conformance {
namespace {

// Without statistics the planner takes the relay's own tables for small ones.
TEST_CASE("what stands beside a row is looked up, not searched, before any ANALYZE") {
  ForeignTable table(
      "CREATE TABLE {0} (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, "
      "payload jsonb)",
      "debezium");
  table.run(
      "INSERT INTO {0} SELECT gen_random_uuid(), 'a', 'k', 't', '1' FROM generate_series(1, "
      "20000)");
  table.run("ANALYZE {0}");
  table.begin();
  postgres::Desk desk(table.settings(), table.fixture().server_clock());
  table.fixture().run(fmt::format(
      "INSERT INTO {0}.outbox_relay_rows (outbox, row_key, state) SELECT 'box', id::text, "
      "'Processed' FROM {0}.box LIMIT 2000",
      table.fixture().schema()));
  desk.connection.begin_work();
  postgres::Transaction look(desk.connection, postgres::Transaction::Kind::read);
  postgres::Rows plan =
      postgres::ask(desk.connection, "EXPLAIN " + postgres::fresh_rows_sql(desk.sql), desk.outbox,
                    postgres::ServerTime{}, 1000);
  std::string text;
  while (plan.next()) text += plan.text(0) + "\n";
  CAPTURE(text);
  CHECK(text.find("Materialize") == std::string::npos);
  CHECK(text.find("outbox_relay_rows_pkey") != std::string::npos);
}

}  // namespace
}  // namespace outbox::conformance
