#include "relay/app/log_limit.h"

#include <cctype>
#include <utility>

namespace outbox {

std::optional<std::uint64_t> LineLimit::admit(Time now) {
  if (now >= window_end_) {
    window_end_ = now + window_;
    written_ = 0;
  }
  if (written_ >= lines_) {
    ++suppressed_;
    return std::nullopt;
  }
  ++written_;
  return std::exchange(suppressed_, 0);
}

std::optional<std::uint64_t> LineLimit::overdue(Time now) {
  if (suppressed_ == 0 || now < window_end_) return std::nullopt;
  return admit(now);
}

std::uint64_t LineLimit::take_suppressed() { return std::exchange(suppressed_, 0); }

std::string fingerprint_of(std::string_view text) {
  constexpr std::size_t kShort = 3;
  const auto in_word = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '_';
  };
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (!in_word(text[at])) {
      result += text[at++];
      continue;
    }
    std::size_t end = at;
    bool digit = false;
    while (end < text.size() && in_word(text[end])) {
      digit = digit || (text[end] >= '0' && text[end] <= '9');
      ++end;
    }
    const auto word = text.substr(at, end - at);
    result += digit && word.size() > kShort ? std::string_view("#") : word;
    at = end;
  }
  return result;
}

std::optional<std::uint64_t> FingerprintLimit::admit(Time now, const std::string& fingerprint,
                                                     const std::string& example) {
  auto found = entries_.find(fingerprint);
  if (found == entries_.end()) {
    if (entries_.size() >= kMost) {
      std::erase_if(entries_, [now](const auto& entry) { return entry.second.limit.idle(now); });
    }
    const std::string name = entries_.size() >= kMost ? std::string{} : fingerprint;
    found = entries_.try_emplace(name, Entry{LineLimit(1, window_), {}}).first;
  }
  auto& entry = found->second;
  auto admitted = entry.limit.admit(now);
  if (!admitted) entry.example = example;
  return admitted;
}

std::vector<FingerprintLimit::Overdue> FingerprintLimit::overdue(Time now) {
  std::vector<Overdue> result;
  for (auto& [fingerprint, entry] : entries_) {
    if (const auto count = entry.limit.overdue(now)) result.push_back({entry.example, *count});
  }
  return result;
}

std::vector<FingerprintLimit::Overdue> FingerprintLimit::take_suppressed() {
  std::vector<Overdue> result;
  for (auto& [fingerprint, entry] : entries_) {
    const auto count = entry.limit.take_suppressed();
    if (count > 0) result.push_back({entry.example, count});
  }
  return result;
}

}  // namespace outbox
