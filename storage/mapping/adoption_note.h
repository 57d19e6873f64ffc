// What is written down when the relay begins on a foreign table, so that a changed mapping shows.
#pragma once

#include <string>

#include "storage/mapping/mapping.h"

namespace outbox {

// Whether the relay has begun on a foreign table, and if it did under another mapping, the settings
// that would bring that back (none if nobody can read them any more).
struct Adopted {
  enum class Answer { no, yes, as_another };
  Answer answer = Answer::no;
  std::string difference;
};

// What of a mapping decides which rows are to be sent, and as what, and by what they are known.
std::string signature_of(const Mapping& mapping);

// What a signature that was written down says about the mapping of today.
Adopted compare_signature(const std::string& written, const Mapping& mapping);

// That it is not that of the beginning, and what to do.
std::string begun_otherwise(const std::string& table, const std::string& database,
                            const Adopted& before);

}  // namespace outbox
