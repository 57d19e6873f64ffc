// "Did you mean ...?"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace outbox {

// How many insertions, deletions, replacements and swaps of neighbours turn one text into the
// other. Upper and lower case are the same, and so are `leaseTerm` and `lease_term`.
std::size_t edit_distance(std::string_view left, std::string_view right);

// The candidate nearest to `text`, or empty when none is near enough to be what was meant.
std::string nearest(std::string_view text, std::span<const std::string> candidates);

// "; did you mean "leaseTerm"?", or empty.
std::string did_you_mean(std::string_view text, std::span<const std::string> candidates);

}  // namespace outbox
