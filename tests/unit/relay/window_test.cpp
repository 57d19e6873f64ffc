#include "relay/window.h"

#include <doctest/doctest.h>

namespace outbox {
namespace {

std::unique_ptr<Held> row(const std::string& name, const std::string& key = {}) {
  auto held = std::make_unique<Held>();
  held->message.row = name;
  if (!key.empty()) held->message.ordering_key = key;
  held->message.payload = "1234";
  return held;
}

TEST_CASE("rows are ready in the order they came, keys one at a time") {
  Window window(true);
  window.add(row("1", "a"));
  window.add(row("2", "a"));
  window.add(row("3"));
  CHECK(window.size() == 3);
  CHECK(window.bytes() == 12);
  CHECK(window.ready() == 2);
  CHECK(window.next_ready()->message.row == "1");
  window.travel(1, {});
  CHECK(window.next_ready()->message.row == "3");
  window.remove(*window.by_ticket(1));
  CHECK(window.ready() == 2);
  CHECK(window.bytes() == 8);
}

TEST_CASE("without key order all rows are ready") {
  Window window(false);
  window.add(row("1", "a"));
  window.add(row("2", "a"));
  CHECK(window.ready() == 2);
}

TEST_CASE("a row that comes back is the first again") {
  Window window(false);
  window.add(row("1"));
  window.add(row("2"));
  window.travel(1, {});
  window.come_back(*window.by_ticket(1));
  CHECK(window.next_ready()->message.row == "1");
  CHECK(window.travelling() == 0);
  CHECK(window.by_ticket(1) == nullptr);
}

TEST_CASE("a row is taken out with all that wait behind it") {
  Window window(true);
  window.add(row("1", "a"));
  window.add(row("2", "b"));
  window.add(row("3", "a"));
  window.travel(1, {});
  const auto removed = window.remove_with_followers(*window.by_ticket(1));
  REQUIRE(removed.size() == 2);
  CHECK(removed[0]->message.row == "1");
  CHECK(removed[1]->message.row == "3");
  CHECK(window.size() == 1);
}

TEST_CASE("taking out what waits leaves what travels, without followers") {
  Window window(true);
  window.add(row("1", "a"));
  window.add(row("2", "a"));
  window.add(row("3", "b"));
  window.add(row("4", "b"));
  window.travel(1, {});
  const auto removed = window.remove_waiting();
  REQUIRE(removed.size() == 3);
  CHECK(removed[0]->message.row == "3");
  CHECK(removed[1]->message.row == "4");
  CHECK(removed[2]->message.row == "2");
  CHECK(window.size() == 1);
  window.remove(*window.by_ticket(1));
  CHECK(window.size() == 0);
  CHECK(window.ready() == 0);
}

TEST_CASE("rows that failed before and loners are counted") {
  Window window(false);
  auto retried = row("1");
  retried->message.history.retry_count = 2;
  retried->message.alone = true;
  window.add(std::move(retried));
  CHECK(window.retries() == 1);
  CHECK(window.holds_loner());
  window.remove(*window.next_ready());
  CHECK(window.retries() == 0);
  CHECK_FALSE(window.holds_loner());
}

}  // namespace
}  // namespace outbox
