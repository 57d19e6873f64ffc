// Finding dead letters, and what an operator does with them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "storage/postgres/desk.h"

namespace outbox::postgres {

std::vector<DeadLetter> list_dead_letters(Desk& desk, const DeadLetterFilter& filter);

// See OutboxDesk::export_dead_letters(). `taken` counts along, also when this throws.
void export_dead_letters(Desk& desk, const DeadLetterFilter& filter,
                         const std::function<bool(const ExportedLetter&)>& take,
                         std::uint64_t& taken);

// What is done to dead letters, and what came of it.
struct Treatment {
  enum class Kind { redrive, discard };
  Kind kind = Kind::redrive;
  std::string reason;
};
struct Treated {
  std::uint64_t done = 0;
  std::uint64_t refused = 0;  // by the database: a trigger, a foreign key
  std::string refusal;        // the first of those errors
};

// In chunks, each a short transaction. `treated` counts along, also when this throws.
void treat_dead_letters(Desk& desk, const DeadLetterFilter& filter, const Treatment& treatment,
                        const Progress& progress, Treated& treated);

}  // namespace outbox::postgres
