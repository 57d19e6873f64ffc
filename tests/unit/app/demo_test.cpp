#include <doctest/doctest.h>
#include <httplib.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "relay/app/demo_canvas.h"
#include "relay/app/demo_events.h"
#include "relay/app/demo_receiver.h"
#include "relay/app/demo_relay.h"
#include "relay/app/demo_screen.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

httplib::Result post(std::uint16_t port, const std::string& id, const std::string& body) {
  httplib::Client client("127.0.0.1", port);
  client.set_tcp_nodelay(true);
  client.set_connection_timeout(300ms);
  client.set_read_timeout(300ms);
  return client.Post("/events", {{"Idempotency-Key", id}}, body, "application/json");
}

// The mood changes on the receiver's thread: waits until what it does is as expected.
template <class Condition>
bool soon(Condition condition) {
  for (const auto end = std::chrono::steady_clock::now() + 5s;
       std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return false;
}

std::string picture(const Canvas& canvas) {
  std::string text;
  for (const std::string& line : canvas.lines(false)) text += line + "\n";
  return text;
}

DemoView view_of_an_outage() {
  DemoView view;
  view.elapsed = 42s;
  view.written = 840;
  view.write_rate = 20;
  view.backlog.pending = 150;
  view.backlog.failed = 7;
  view.backlog.dead_lettered = 1;
  view.relay.answered = true;
  view.relay.circuit = "open";
  view.relay.next_probe = 3;
  view.relay.oldest_age = 8.4;
  view.relay.opened = 1;
  view.mood = ReceiverMood::refusing;
  view.receiver.received = 683;
  view.waiting = {0, 0, 3, 50, 100, 157};
  view.waiting_peak = 157;
  DeadLetter letter;
  letter.event_type = "github.push";
  letter.reason = "permanent";
  letter.last_error = "HTTP 400";
  view.dead_letters = {letter};
  view.log = {"circuit opened: connection refused"};
  return view;
}

TEST_CASE("demo: the embedded events are real, different and complete") {
  const auto events = demo_events();
  std::set<std::string> types;
  for (const DemoEvent& event : events) {
    types.insert(event.event_type);
    CHECK(event.payload.size() > 1000);
    CHECK(event.payload.front() == '{');
    CHECK_FALSE(event.ordering_key.empty());
  }
  CHECK(types.size() == events.size());
  CHECK(events.size() >= 10);
}

TEST_CASE("demo: the receiver counts each event once and tells a repeat apart") {
  DemoReceiver receiver;
  for (const char* id : {"a", "b", "a"}) {
    const auto answer = post(receiver.port(), id, "{}");
    REQUIRE(answer);
    CHECK(answer->status == 204);
  }
  CHECK(receiver.tally().received == 2);
  CHECK(receiver.tally().repeated == 1);
  CHECK(receiver.accepted().contains("b"));
}

TEST_CASE("demo: several events travel on one connection") {
  DemoReceiver receiver;
  httplib::Client client("127.0.0.1", receiver.port());
  client.set_keep_alive(true);
  client.set_tcp_nodelay(true);
  for (int at = 0; at < 20; ++at) {
    const auto answer = client.Post("/", {{"Idempotency-Key", std::to_string(at)}},
                                    std::string(20'000, 'x'), "text/plain");
    REQUIRE(answer);
    CHECK(answer->status == 204);
  }
  CHECK(receiver.tally().received == 20);
}

TEST_CASE("demo: only the poisoned event is refused, until the receiver is mended") {
  DemoReceiver receiver;
  receiver.refuse_event("bad");
  CHECK(post(receiver.port(), "bad", "{}")->status == 400);
  CHECK(post(receiver.port(), "good", "{}")->status == 204);
  receiver.accept_all();
  CHECK(post(receiver.port(), "bad", "{}")->status == 204);
  CHECK(receiver.tally().refused == 1);
  CHECK(receiver.tally().received == 2);
}

TEST_CASE("demo: a broken receiver refuses connections and keeps its port for later") {
  DemoReceiver receiver;
  receiver.set_mood(ReceiverMood::refusing);
  CHECK(soon([&] { return !post(receiver.port(), "a", "{}"); }));
  CHECK(post(receiver.port(), "b", "{}").error() == httplib::Error::Connection);
  receiver.set_mood(ReceiverMood::working);
  CHECK(soon([&] { return bool(post(receiver.port(), "c", "{}")); }));
  CHECK_FALSE(receiver.accepted().contains("b"));
}

TEST_CASE("demo: a hanging receiver takes the connection and never answers") {
  DemoReceiver receiver;
  receiver.set_mood(ReceiverMood::hanging);
  CHECK(soon([&] { return !post(receiver.port(), "a", "{}"); }));
  CHECK(post(receiver.port(), "b", "{}").error() == httplib::Error::Read);
  CHECK_FALSE(receiver.accepted().contains("b"));
  receiver.set_mood(ReceiverMood::working);
  CHECK(soon([&] { return bool(post(receiver.port(), "c", "{}")); }));
}

TEST_CASE("demo: the relay's numbers are read from its metrics page") {
  const RelayNumbers numbers = read_metrics(
      "# HELP outbox_relay_published_total Messages\n"
      "outbox_relay_published_total{broker=\"main\",event_type=\"a b\"} 3\n"
      "outbox_relay_published_total{broker=\"main\",event_type=\"__other__\"} 4\n"
      "outbox_relay_broker_circuit_state{broker=\"main\",state=\"closed\"} 0\n"
      "outbox_relay_broker_circuit_state{broker=\"main\",state=\"half_open\"} 1\n"
      "outbox_relay_broker_circuit_next_probe_timestamp_seconds{broker=\"main\"} 1005\n"
      "outbox_relay_broker_circuit_transitions_total{broker=\"main\",to=\"open\"} 2\n"
      "outbox_relay_oldest_pending_age_seconds 1.5e1\n"
      "nonsense\n",
      1000);
  CHECK(numbers.published == 7);
  CHECK(numbers.circuit == "half_open");
  CHECK(numbers.next_probe == 5);
  CHECK(numbers.opened == 2);
  CHECK(numbers.oldest_age == 15);
}

TEST_CASE("demo: a line of the relay's log is shortened for people and tells the port") {
  const LogLine ready = read_log_line(
      R"({"time":"2026-11-30T18:42:00.123Z","level":"info","msg":"started","http_port":"4711"})");
  CHECK(ready.text == "18:42:00 info  started");
  CHECK(ready.http_port == 4711);
  const LogLine failed = read_log_line(
      R"({"time":"2026-11-30T18:42:00.123Z","level":"warn","msg":"m","reason":"r","messages":3})");
  CHECK(failed.text == "18:42:00 warn  m reason=r messages=3");
  CHECK(failed.http_port == 0);
  CHECK(read_log_line("plain words").text == "plain words");
}

TEST_CASE("demo: the picture fits 80 x 24 and shows flow, circuit, backlog and dead letters") {
  for (const bool unicode : {true, false}) {
    const Canvas canvas = draw(view_of_an_outage(), "press b", 80, 24, unicode);
    const std::string text = picture(canvas);
    CAPTURE(text);
    for (const char* expected :
         {"20.0 events/s", "840 written", "157 waiting", "OPEN", "next probe in 3 s",
          "683 received", "refuses connections", "8.4 s", "github.push  permanent  HTTP 400",
          "circuit opened", "press b", "q quit"}) {
      CHECK(text.find(expected) != std::string::npos);
    }
    CHECK(canvas.lines(false).size() == 24);
    CHECK(text.find('\x1b') == std::string::npos);
    const bool ascii = text.find('\xe2') == std::string::npos;
    CHECK(ascii == !unicode);
  }
}

TEST_CASE("demo: a window of any size is drawn on, and never past its edge") {
  for (std::size_t columns = 0; columns < 90; ++columns) {
    for (const std::size_t rows : {0u, 1u, 2u, 5u, 11u, 24u, 60u}) {
      const auto lines = draw(view_of_an_outage(), "m", columns, rows, false).lines(false);
      REQUIRE(lines.size() == std::max<std::size_t>(rows, 1));
      for (const std::string& line : lines) {
        REQUIRE(line.size() <= std::max<std::size_t>(columns, 1));
      }
    }
  }
}

TEST_CASE("demo: text that could move the cursor is shown, not obeyed") {
  Canvas canvas(10, 1);
  canvas.put(0, 0, "a\x1b[2J\xff\xc3;\n");
  CHECK(canvas.lines(true).front() == "a?[2J??;?");
}

TEST_CASE("demo: without colours a picture holds no escape sequence but for placing it") {
  const std::string frame = draw(view_of_an_outage(), "m", 80, 24, true).frame(false);
  CHECK(frame.find("\x1b[0") == std::string::npos);
  CHECK(draw(view_of_an_outage(), "m", 80, 24, true).frame(true).find("\x1b[0;31m") !=
        std::string::npos);
}

TEST_CASE("demo: a child's output comes line by line, its settings do not leak, its end is seen") {
  setenv("OUTBOX_RELAY__LOG__LEVEL", "debug", 1);
  DemoProcess process({"/bin/sh", "-c", "echo one; echo \"[$OUTBOX_RELAY__LOG__LEVEL]\"; exit 7"});
  std::string heard;
  CHECK(soon([&] {
    for (const std::string& line : process.lines()) heard += line + "|";
    return process.exit_code().has_value() && heard == "one|[]|";
  }));
  CHECK(process.exit_code() == 7);
  unsetenv("OUTBOX_RELAY__LOG__LEVEL");
}

TEST_CASE("demo: spans are worded for people") {
  CHECK(for_people(0.04s) == "0.0 s");
  CHECK(for_people(9.94s) == "9.9 s");
  CHECK(for_people(9.99s) == "10 s");
  CHECK(for_people(125s) == "2 min 5 s");
  CHECK(for_people(-1s) == "0.0 s");
}

}  // namespace
}  // namespace outbox
