// What the cases of the store suite share.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/store_conformance.h"

namespace outbox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

struct Outbox {
  std::unique_ptr<StoreFixture> fixture = make_store_fixture();

  void insert(const Ids& ids) const {
    for (const auto& id : ids) fixture->insert({.id = id});
  }
  void insert_keyed(const std::string& id, const std::string& key) const {
    fixture->insert({.id = id, .ordering_key = key});
  }
};

// The turn must have been committed; shows why it was not.
inline Turn done(Turn turn) {
  REQUIRE_MESSAGE(turn.status == TurnStatus::committed, turn.error);
  return turn;
}

}  // namespace outbox::conformance
