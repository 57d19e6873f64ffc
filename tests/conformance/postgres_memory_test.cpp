// What a turn has the server send is bounded, since it is in memory all at once.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/conformance/postgres_foreign_table.h"
#include "tests/servers/tcp_proxy.h"

namespace outbox::conformance {
namespace {

constexpr std::size_t kMebibyte = 1u << 20;

// A relay whose bytes are counted.
class CountedRelay {
 public:
  CountedRelay(PostgresFixture& fixture, StoreSettings settings)
      : port_(port_of(settings.url)), proxy_(static_cast<std::uint16_t>(std::stoi(port_))) {
    settings.url.replace(settings.url.find(port_), port_.size(), std::to_string(proxy_.port()));
    store_ = std::make_unique<postgres::PostgresStore>(settings, fixture.clock(), fixture.bell(),
                                                       fixture.server_clock());
  }

  Turn turn(std::size_t limit, const std::vector<Settlement>& settlements = {}) {
    TurnRequest request;
    request.number = ++number_;
    request.settlements = settlements;
    request.lease = {.limit = limit,
                     .retry_limit = limit,
                     .bytes = 4 * kMebibyte,
                     .payload_max = 4 * kMebibyte,
                     .term = 30s};
    const std::size_t before = proxy_.passed();
    Turn turn = done(store_->turn(request));
    passed_ = proxy_.passed() - before;
    return turn;
  }
  // Those of the last turn.
  std::size_t passed() const { return passed_; }

 private:
  static std::string port_of(const std::string& url) {
    const std::size_t at = url.rfind(':') + 1;
    return url.substr(at, url.find('/', at) - at);
  }

  const std::string port_;
  testing::TcpProxy proxy_;
  std::unique_ptr<postgres::PostgresStore> store_;
  std::uint64_t number_ = 0;
  std::size_t passed_ = 0;
};

// Leases and delivers all rows, so many at once. Returns the most that a turn took.
std::size_t most_passed(CountedRelay& relay, std::size_t limit, std::size_t rows) {
  std::size_t most = 0;
  std::size_t delivered_rows = 0;
  std::vector<Settlement> verdicts;
  for (int turns = 0; turns < 1000 && delivered_rows < rows; ++turns) {
    const Turn turn = relay.turn(limit, verdicts);
    most = std::max(most, relay.passed());
    verdicts.clear();
    for (const Message& message : turn.leased) verdicts.push_back(delivered(message));
    delivered_rows += verdicts.size();
  }
  CHECK(delivered_rows == rows);
  return most;
}

}  // namespace

TEST_CASE("a turn that may lease a few rows does not read many large payloads") {
  for (const std::size_t limit : {1, 3}) {
    CAPTURE(limit);
    PostgresFixture fixture;
    for (int row = 0; row < 12; ++row) {
      fixture.insert(
          {.id = fmt::format("row-{}", row), .payload = std::string(2 * kMebibyte, 'x')});
    }
    CountedRelay relay(fixture, fixture.settings());
    CHECK(most_passed(relay, limit, 12) < 6 * kMebibyte);
  }
}

TEST_CASE("a turn that may lease a few rows does not read the large headers of many") {
  PostgresFixture fixture;
  const std::string headers = fmt::format(R"({{"note": "{}"}})", std::string(500'000, 'x'));
  for (int row = 0; row < 24; ++row) {
    fixture.insert({.id = fmt::format("row-{}", row), .headers = headers});
  }
  CountedRelay relay(fixture, fixture.settings());
  CHECK(most_passed(relay, 1, 24) < 2 * kMebibyte);
}

TEST_CASE("a payload that holds its headers is read once") {
  ForeignTable table(
      "CREATE TABLE {0} (\"Id\" bigint PRIMARY KEY, \"Version\" text, \"Name\" text, \"Content\" "
      "text, \"Retries\" int, \"Added\" timestamp, \"ExpiresAt\" timestamp, \"StatusName\" text)",
      "cap");
  table.run(
      "INSERT INTO {0} SELECT n, 'v1', 'topic', '{{\"Headers\": {{\"cap-msg-id\": \"' || n || "
      "'\"}}, \"Value\": \"' || repeat('x', 800000) || '\"}}', 0, now(), NULL, 'Scheduled' "
      "FROM generate_series(1, 24) AS n");
  table.begin();
  CountedRelay relay(table.fixture(), table.settings());
  CHECK(most_passed(relay, 100, 24) < 6 * kMebibyte);
}

}  // namespace outbox::conformance
