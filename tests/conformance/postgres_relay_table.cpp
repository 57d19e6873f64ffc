// The suite on the relay's own table in PostgreSQL.
#include "tests/conformance/postgres_fixture.h"

namespace outbox::conformance {

std::unique_ptr<StoreFixture> make_store_fixture() { return std::make_unique<PostgresFixture>(); }

}  // namespace outbox::conformance
