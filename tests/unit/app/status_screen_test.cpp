#include "relay/app/status_screen.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

using namespace outbox;

namespace {

// As full as a picture can be, with texts from outside that are long and odd.
StatusPicture full_picture() {
  const std::string odd = "\xe6\xbc\xa2\xe5\xad\x97\x1b[31m\n" + std::string(300, 'x');
  StatusPicture picture;
  picture.table = odd;
  picture.store = "sqlite:///" + odd;
  picture.url = "http://127.0.0.1:9711";
  picture.time = "2026-11-30 22:00:00 UTC";
  picture.live.answers = true;
  picture.live.state = odd;
  picture.live.reason = odd;
  picture.live.samples = {{"broker_circuit_state", {{"state", "open"}}, 1},
                          {"broker_circuit_next_probe_timestamp_seconds", {}, 4e9},
                          {"destinations_held", {{"reason", odd}}, 1}};
  for (int i = 0; i < 50; ++i) {
    picture.backlog.value.dead_by_event_type.emplace_back(odd, i);
    picture.overview.value.relays.push_back({.host = odd, .started_at = odd});
    picture.overview.value.errors.push_back({.event_type = odd, .id = odd, .error = odd});
  }
  picture.overview.value.isolated = true;
  picture.overview.value.reason = odd;
  return picture;
}

}  // namespace

TEST_CASE("a screen never has more lines than rows, nor bytes that move the cursor") {
  for (const std::size_t rows : {1u, 5u, 23u}) {
    const auto lines = status_lines(full_picture(), 80, rows);
    CHECK(lines.size() <= rows);
    for (const std::string& line : lines) {
      CHECK(std::ranges::none_of(line, [](unsigned char letter) { return letter < ' '; }));
    }
  }
  CHECK(status_lines(full_picture(), 80, 100).size() <= 23);
}

TEST_CASE("a line that does not fit says so, and one without an end is shown whole") {
  StatusPicture picture;
  picture.backlog.error = std::string(500, 'x') + " the remedy";
  const auto last_of = [](const std::string& text) { return text.substr(text.size() - 3); };
  CHECK(last_of(status_lines(picture, 80, 23).at(2)) == "...");
  CHECK(status_lines(picture, 80, 23).at(2).size() == 80);
  CHECK(status_lines(picture, SIZE_MAX, 23).at(2).ends_with("the remedy"));
}

TEST_CASE("errors that are alike are one, with their count and an id to look at") {
  StatusPicture picture;
  for (const char* id : {"id-3", "id-2", "id-1"}) {
    picture.overview.value.errors.push_back({"order.placed", id, 2, "HTTP 500", false});
  }
  picture.overview.value.errors.push_back({"order.placed", "id-0", 9, "HTTP 500", true});
  const auto lines = status_lines(picture, 80, 23);
  const auto errors = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("Errors"); });
  REQUIRE(lines.end() - errors == 4);
  CHECK(errors[0] == "Errors     3 waiting, order.placed: HTTP 500");
  CHECK(errors[1] == "             such as id-3, 2 failed");
  CHECK(errors[2] == "           1 dead, order.placed: HTTP 500");
  CHECK(status_json(picture, -1).find("\"count\":3") != std::string::npos);
}

TEST_CASE("text is cut where a terminal's line ends, between characters") {
  CHECK(fitted("abc", 3) == "abc");
  CHECK(fitted("abcd", 3) == "abc");
  CHECK(fitted("\xc3\xa9\xc3\xa9\xc3\xa9", 2) == "\xc3\xa9\xc3\xa9");
  CHECK(fitted("a\xe6\xbc\xa2\xe5\xad\x97", 4) == "a\xe6\xbc\xa2");
  CHECK(fitted("", 0).empty());
}

TEST_CASE("metrics are read with their labels, and what is none is passed over") {
  const auto samples = parse_metrics(
      "# HELP x y\noutbox_relay_published_total{broker=\"main\",event_type=\"a\\\"b\\\\c\"} 12\n"
      "up 1\nbroken{a=\"b\nno number x\n\nexposed{} 2.5e3\n");
  REQUIRE(samples.size() == 3);
  CHECK(samples[0].name == "published_total");
  CHECK(samples[0].labels.at("event_type") == "a\"b\\c");
  CHECK(samples[0].value == 12);
  CHECK(samples[1].name == "up");
  CHECK(samples[2].value == 2500);
}

TEST_CASE("with a picture before, rates are those in between, and a restart is no negative rate") {
  StatusPicture picture = full_picture();
  picture.live.asked_at += std::chrono::seconds{12};
  picture.live.samples.push_back({"published_total", {}, 130});
  picture.before = LiveRelay{};
  picture.before->answers = true;
  picture.before->asked_at += std::chrono::seconds{10};
  picture.before->samples = {{"published_total", {}, 100}, {"retries_total", {}, 50}};
  const std::string json = status_json(picture, -1);
  CHECK(json.find("\"publishedPerSecond\":15.0") != std::string::npos);
  CHECK(json.find("\"retriesPerSecond\":0.0") != std::string::npos);
}
