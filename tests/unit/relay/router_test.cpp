#include "relay/router.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace outbox {
namespace {

Message order_placed() {
  Message message;
  message.id = "0190c5a1-0000-7000-8000-000000000001";
  message.event_type = "order.placed";
  message.ordering_key = "order-17";
  message.headers = {{"Tenant", "acme"}, {"tenant", "second"}, {"Empty", ""}};
  return message;
}

Routed routed_by(const std::string& destination, const Message& message) {
  return Router(std::vector<Route>{{"*", destination}}).route(message);
}

TEST_CASE("without any route a row goes to its own destination, else to the broker's") {
  const Router router(std::vector<Route>{});
  Message message = order_placed();
  CHECK(router.route(message).destination.empty());
  CHECK(router.route(message).error.empty());
  message.destination = "invoices";
  CHECK(router.route(message).destination == "invoices");
  CHECK(router.route(message).error.empty());
}

TEST_CASE("the first route that matches wins") {
  const Router router({{"invoice.*", "a"}, {"order.*", "b"}, {"order.placed", "c"}, {"*", "d"}});
  Message message = order_placed();
  CHECK(router.route(message).destination == "b");
  message.event_type = "shipment.sent";
  CHECK(router.route(message).destination == "d");
}

TEST_CASE("a row that no route matches says no_route and goes nowhere") {
  const Router router(std::vector<Route>{{"invoice.*", "a"}});
  Message message = order_placed();
  message.destination = "its own";
  CHECK(router.route(message).error == "no_route");
  CHECK(router.route(message).destination.empty());
}

TEST_CASE("a route without destination leaves the row its own") {
  const Router router(std::vector<Route>{{"order.*", ""}});
  Message message = order_placed();
  CHECK(router.route(message).destination.empty());
  CHECK(router.route(message).error.empty());
  message.destination = "its own";
  CHECK(router.route(message).destination == "its own");
}

TEST_CASE("a route's destination replaces the row's own") {
  Message message = order_placed();
  message.destination = "its own";
  CHECK(routed_by("events", message).destination == "events");
}

TEST_CASE("placeholders take the values of the row") {
  const Message message = order_placed();
  CHECK(routed_by("{eventType}", message).destination == "order.placed");
  CHECK(routed_by("events.{eventType}.v1", message).destination == "events.order.placed.v1");
  CHECK(routed_by("{key}/{eventType}", message).destination == "order-17/order.placed");
  CHECK(routed_by("{key}{key}", message).destination == "order-17order-17");
}

TEST_CASE("header names are found in any case, and the first of several counts") {
  const Message message = order_placed();
  for (const char* name : {"{header.Tenant}", "{header.tenant}", "{header.TENANT}"}) {
    CHECK(routed_by(name, message).destination == "acme");
  }
}

TEST_CASE("doubled braces stand for themselves") {
  const Message message = order_placed();
  CHECK(routed_by("a{{b}}c", message).destination == "a{b}c");
  CHECK(routed_by("{{{key}}}", message).destination == "{order-17}");
  CHECK(routed_by("{{key}}", message).destination == "{key}");
}

TEST_CASE("a value is not searched for placeholders") {
  Message message = order_placed();
  message.ordering_key = "{eventType}";
  CHECK(routed_by("{key}", message).destination == "{eventType}");
}

TEST_CASE("a placeholder without a value is an error that names it") {
  Message message = order_placed();
  message.ordering_key.reset();
  CHECK(routed_by("orders.{key}", message).error == "the row has no value for {key}");
  CHECK(routed_by("orders.{key}", message).destination.empty());
  message.ordering_key = "";
  CHECK(routed_by("orders.{key}", message).error == "the row has no value for {key}");
  CHECK(routed_by("{header.Region}", message).error == "the row has no value for {header.Region}");
  CHECK(routed_by("{header.Empty}", message).error == "the row has no value for {header.Empty}");
}

TEST_CASE("a header's value is found by its whole name only") {
  Message message = order_placed();
  message.headers = {{"TenantId", "7"}, {"Ten", "x"}};
  CHECK_FALSE(routed_by("{header.Tenant}", message).error.empty());
}

TEST_CASE("a template that is right has no error") {
  for (const char* text : {"", "orders", "{eventType}", "{key}", "{header.X}", "a{key}b{key}",
                           "{{}}", "{header.x-tenant.id}", "caf\xc3\xa9.{key}"}) {
    CAPTURE(text);
    CHECK(template_error(text).empty());
  }
}

TEST_CASE("a template that is wrong is told what is wrong and what is allowed") {
  struct Row {
    const char* text;
    const char* names;
  };
  const Row rows[] = {
      {"orders.{tenant}", "{tenant}"},
      {"{eventtype}", "{eventtype}"},
      {"{}", "{}"},
      {"{header.}", "{header.}"},
      {"{header}", "{header}"},
      {"{ key }", "{ key }"},
      {"a.{key", "{key"},
      {"a}b", "}b"},
      {"{key}}", "}"},
      {"{", "{"},
      {"{key}{{{oops}", "{oops}"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const std::string error = template_error(row.text);
    CHECK(error.find(row.names) != std::string::npos);
    for (const char* allowed : {"{eventType}", "{key}", "{header.NAME}"}) {
      CHECK(error.find(allowed) != std::string::npos);
    }
    CHECK(routed_by(row.text, order_placed()).error == error);
    CHECK(routed_by(row.text, order_placed()).destination.empty());
  }
}

TEST_CASE("a glob matches the whole text") {
  struct Row {
    const char* pattern;
    const char* text;
    bool matches;
  };
  const Row rows[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "anything.at.all", true},
      {"**", "a", true},
      {"?", "", false},
      {"?", "a", true},
      {"?", "ab", false},
      {"order.placed", "order.placed", true},
      {"order.placed", "order.placed.v2", false},
      {"order.placed", "my.order.placed", false},
      {"order.placed", "Order.placed", false},
      {"order.*", "order.", true},
      {"order.*", "order", false},
      {"*.placed", "order.placed", true},
      {"*.placed", "order.placed.placed", true},
      {"*.placed", "order.placed.x", false},
      {"o*r.*d", "order.placed", true},
      {"a*b*c", "a-b-b-c-c", true},
      {"a*b*c", "a-c-b", false},
      {"*a?c*", "xxabcxx", true},
      {"*a?c*", "xxacxx", false},
      {"order.v?", "order.v2", true},
      {"order.v?", "order.v10", false},
      {"*ab", "aab", true},
      {"*aab", "aaaab", true},
      {"a*", "b", false},
      {"*?", "", false},
      {"?*", "a", true},
      {"[a]", "a", false},
      {"[a]", "[a]", true},
      {"a.b", "axb", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    CAPTURE(row.text);
    CHECK(glob_matches(row.pattern, row.text) == row.matches);
  }
}

TEST_CASE("a question mark takes one character, however many bytes it has") {
  CHECK(glob_matches("caf?", "caf\xc3\xa9"));
  CHECK_FALSE(glob_matches("caf??", "caf\xc3\xa9"));
  CHECK_FALSE(glob_matches("*??", "\xc3\xa9"));
  CHECK(glob_matches("?", "\xf0\x9f\x9a\x80"));
  CHECK(glob_matches("*\xa9", "\xc3\xa9") == false);
}

// Every way to match, tried one after the other.
bool matches_slowly(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (std::size_t taken = 0; taken <= text.size(); ++taken) {
      if (matches_slowly(pattern.substr(1), text.substr(taken))) return true;
    }
    return false;
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return matches_slowly(pattern.substr(1), text.substr(1));
}

void all_words(std::string_view letters, std::size_t longest, std::vector<std::string>& words) {
  words = {""};
  for (std::size_t from = 0; words[from].size() < longest; ++from) {
    for (const char letter : letters) words.push_back(words[from] + letter);
  }
}

TEST_CASE("globs agree with trying every way on all short patterns and texts") {
  std::vector<std::string> patterns;
  std::vector<std::string> texts;
  all_words("ab*?", 5, patterns);
  all_words("ab", 5, texts);
  std::size_t differences = 0;
  std::size_t matches = 0;
  for (const std::string& pattern : patterns) {
    for (const std::string& text : texts) {
      const bool expected = matches_slowly(pattern, text);
      matches += expected ? 1 : 0;
      if (glob_matches(pattern, text) != expected) {
        ++differences;
        MESSAGE(pattern << " on " << text);
      }
    }
  }
  CHECK(differences == 0);
  CHECK(matches > 1000);
}

TEST_CASE("a pattern full of stars does not take forever") {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  pattern += "*b";
  const std::string text(4000, 'a');
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(glob_matches(pattern, text));
  // Trying every way would outlast the sun; this takes well under a millisecond.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{5});
}

}  // namespace
}  // namespace outbox
