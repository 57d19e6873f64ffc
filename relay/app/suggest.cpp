#include "relay/app/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace outbox {
namespace {

// Comparing is quadratic, and nobody means a key by a text this long.
constexpr std::size_t kLongest = 120;

std::string plain(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '_' || letter == '-') continue;
    const bool upper = letter >= 'A' && letter <= 'Z';
    result.push_back(upper ? static_cast<char>(letter - 'A' + 'a') : letter);
  }
  return result;
}

}  // namespace

std::size_t edit_distance(std::string_view left, std::string_view right) {
  const std::string a = plain(left);
  const std::string b = plain(right);
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest(std::string_view text, std::span<const std::string> candidates) {
  if (text.empty() || text.size() > kLongest) return {};
  const std::size_t enough = std::max<std::size_t>(1, std::min<std::size_t>(3, text.size() / 3));
  std::string best;
  std::size_t best_distance = enough + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(text, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view text, std::span<const std::string> candidates) {
  const std::string best = nearest(text, candidates);
  return best.empty() ? std::string{} : fmt::format("; did you mean \"{}\"?", best);
}

}  // namespace outbox
