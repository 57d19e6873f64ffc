// Sessions in all orders: what holds must hold after each step, whoever takes the next one.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/conformance/isolation_history.h"

namespace outbox::conformance::isolation {
namespace {

using Numbers = std::vector<std::size_t>;
using Verdicts = std::vector<Verdict>;

constexpr std::array kOrderings{Ordering::none, Ordering::key};
const Step kRenew{.act = Act::turn};
const Script kCommits{{Act::begin}, insert("late", "k"), {Act::commit}};
const Script kRollsBack{{Act::begin}, insert("never", "k"), {Act::roll_back}};
const Script kLapses{{Act::lapse}};

std::size_t interruptions() { return proof() ? 2 : 1; }

Verdicts verdicts() {
  return {Verdict::delivered, Verdict::retry, Verdict::released, Verdict::dead};
}

// Rows of one key, where keys matter.
std::vector<NewRow> rows(std::initializer_list<const char*> ids) {
  std::vector<NewRow> result;
  for (const char* id : ids) result.push_back(insert(id, "k").row);
  return result;
}

const char* name_of(Ordering ordering) {
  return ordering == Ordering::key ? "by key" : "unordered";
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::delivered:
      return "delivered";
    case Verdict::retry:
      return "retry";
    case Verdict::dead:
      return "dead";
    case Verdict::released:
      return "released";
    case Verdict::held:
      return "held";
  }
  return "";
}

// Once for each ordering.
void explore_both(Family family) {
  static const auto stage = make_stage();
  const std::string name = family.name;
  for (const Ordering ordering : kOrderings) {
    family.ordering = ordering;
    family.name = fmt::format("{}, {}", name, name_of(ordering));
    explore(*stage, family);
  }
}

// Sessions by their number.
constexpr std::size_t kOne = 0;
constexpr std::size_t kOther = 1;
constexpr std::size_t kThird = 2;  // beside two relays
constexpr std::size_t kFourth = 3;

TEST_CASE("turns in all orders: lease, settle, commit") {
  explore_both(
      {.name = "two relays and a commit",
       .rows = rows({"a", "b"}),
       .relays = {{lease(1), settle(Verdict::delivered)}, {lease(2), settle(Verdict::delivered)}},
       .others = {kCommits},
       .prelude = proof() ? Numbers{} : Numbers{kThird}});
  explore_both({.name = "two relays and a rollback",
                .rows = rows({"a"}),
                .relays = {{lease(1), settle_and_lease(Verdict::delivered)}, {lease(2)}},
                .others = {kRollsBack},
                .prelude = {kThird}});
  explore_both({.name = "three relays",
                .rows = rows({"a", "b"}),
                .relays = {{lease(1), settle(Verdict::delivered)},
                           {lease(1), settle(Verdict::retry)},
                           {lease(1), settle(Verdict::released)}}});
}

TEST_CASE("turns in all orders: leases that lapse") {
  for (const auto& [late, others] : {std::pair(Verdict::delivered, Verdicts{Verdict::dead}),
                                     std::pair(Verdict::retry, Verdicts{Verdict::released}),
                                     std::pair(Verdict::released, Verdicts{Verdict::delivered}),
                                     std::pair(Verdict::dead, Verdicts{Verdict::retry})}) {
    for (const Verdict other : proof() ? verdicts() : others) {
      explore_both({.name = fmt::format("{} and {}", name_of(late), name_of(other)),
                    .rows = rows({"a", "b"}),
                    .relays = {{lease(2), settle(late)}, {lease(2), settle(other)}},
                    .others = {kLapses}});
    }
  }
}

TEST_CASE("turns in all orders: a relay that retires, a turn that is repeated, a redrive") {
  explore_both(
      {.name = "retire",
       .rows = rows({"a", "b"}),
       .relays = {{lease(2), {Act::retire}}, {lease(2), settle(Verdict::delivered), lease(2)}}});
  explore_both(
      {.name = "repeat",
       .rows = rows({"a", "b"}),
       .relays = {{lease(1), settle_and_lease(Verdict::delivered, 1), {Act::repeat}}, {lease(2)}},
       .others = {kLapses}});
  explore_both({.name = "redrive",
                .rows = rows({"a"}),
                .relays = {{lease(1), settle(Verdict::delivered)},
                           {lease(1), settle(Verdict::dead), lease(1)}},
                .operators = {{{Act::redrive}}},
                .others = {kLapses},
                .prelude = {kOne}});
}

TEST_CASE("statements in all orders: two that lease, and a commit") {
  explore_both({.name = "two leases and a commit",
                .rows = rows({"a", "b"}),
                .relays = {{lease(2)}, {lease(2)}},
                .others = {kCommits},
                .prelude = {kThird, kThird},
                .interruptions = interruptions()});
  explore_both({.name = "lease of one and lease of two",
                .rows = rows({"a", "b"}),
                .relays = {{lease(1)}, {lease(2)}},
                .interruptions = interruptions()});
}

TEST_CASE("statements in all orders: one that settles, and one that leases") {
  for (const Verdict verdict : verdicts()) {
    explore_both({.name = fmt::format("{} and lease", name_of(verdict)),
                  .rows = rows({"a", "b", "c"}),
                  .relays = {{lease(1), settle_and_lease(verdict, 1)}, {lease(2)}},
                  .prelude = {kOne},
                  .interruptions = interruptions()});
  }
}

TEST_CASE("statements in all orders: one that leases, while another leases and settles") {
  for (const Verdict verdict : verdicts()) {
    explore_both({.name = fmt::format("lease, and lease and {}", name_of(verdict)),
                  .rows = rows({"a", "b"}),
                  .relays = {{lease(2)}, {lease(1), settle(verdict)}},
                  .interruptions = interruptions()});
  }
}

TEST_CASE("statements in all orders: one that is late, and one that takes over") {
  for (const Verdict verdict : verdicts()) {
    explore_both({.name = fmt::format("late {} and lease", name_of(verdict)),
                  .rows = rows({"a", "b"}),
                  .relays = {{lease(2), settle(verdict)}, {lease(2)}},
                  .others = {kLapses},
                  .prelude = {kOne, kThird},
                  .interruptions = interruptions()});
  }
  explore_both({.name = "late renewal and lease",
                .rows = rows({"a", "b"}),
                .relays = {{lease(2), kRenew}, {lease(2)}},
                .others = {kLapses},
                .prelude = {kOne, kThird},
                .interruptions = interruptions()});
  explore_both({.name = "two that take over",
                .rows = rows({"a", "b"}),
                .relays = {{lease(2)}, {lease(1)}, {lease(2)}},
                .others = {kLapses},
                .prelude = {kOne, kFourth},
                .interruptions = interruptions()});
}

TEST_CASE("statements in all orders: a late confirmation, and one that settles") {
  for (const Verdict verdict : verdicts()) {
    explore_both({.name = fmt::format("late delivered and {}", name_of(verdict)),
                  .rows = rows({"a", "b"}),
                  .relays = {{lease(2), settle(Verdict::delivered)}, {lease(2), settle(verdict)}},
                  .others = {kLapses},
                  .prelude = {kOne, kThird, kOther},
                  .interruptions = interruptions()});
  }
}

TEST_CASE("statements in all orders: a redrive, and one that is late, or leases") {
  explore_both(
      {.name = "redrive and late delivered",
       .rows = rows({"a"}),
       .relays = {{lease(1), settle(Verdict::delivered)}, {lease(1), settle(Verdict::dead)}},
       .operators = {{{Act::redrive}}},
       .others = {kLapses},
       .prelude = {kOne, kFourth, kOther, kOther},
       .interruptions = interruptions()});
  explore_both({.name = "redrive and lease",
                .rows = rows({"a", "b"}),
                .relays = {{lease(1), settle(Verdict::dead)}, {lease(2)}},
                .operators = {{{Act::redrive}}},
                .prelude = {kOne, kOne},
                .interruptions = interruptions()});
}

TEST_CASE("statements in all orders: a relay that retires, time that passes, a repetition") {
  explore_both({.name = "retire and lease",
                .rows = rows({"a", "b"}),
                .relays = {{lease(2), {Act::retire}}, {lease(2)}},
                .prelude = {kOne},
                .interruptions = interruptions()});
  if (proof()) {
    explore_both({.name = "lapse amid two leases",
                  .rows = rows({"a", "b"}),
                  .relays = {{lease(1)}, {lease(2)}},
                  .others = {kLapses},
                  .interruptions = interruptions()});
  }
  explore_both(
      {.name = "repeat and lease",
       .rows = rows({"a", "b"}),
       .relays = {{lease(1), settle_and_lease(Verdict::delivered, 1), {Act::repeat}}, {lease(2)}},
       .prelude = {kOne},
       .interruptions = interruptions()});
}

}  // namespace
}  // namespace outbox::conformance::isolation
