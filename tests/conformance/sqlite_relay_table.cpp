// The suite on the relay's own table.
#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {

std::unique_ptr<StoreFixture> make_store_fixture() { return std::make_unique<SqliteFixture>(); }

}  // namespace outbox::conformance
