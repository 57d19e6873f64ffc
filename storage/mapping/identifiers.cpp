#include "storage/mapping/identifiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace outbox {
namespace {

constexpr std::size_t kGuidBytes = 16;

// Which byte comes as the `index`th in the text.
std::size_t guid_byte(std::size_t index, GuidOrder order) {
  constexpr std::array<std::size_t, kGuidBytes> dotnet{3, 2, 1,  0,  5,  4,  7,  6,
                                                       8, 9, 10, 11, 12, 13, 14, 15};
  return order == GuidOrder::dotnet ? dotnet.at(index) : index;
}

std::optional<std::string> from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes(digits.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned char byte = 0;
    const char* const begin = digits.data() + 2 * i;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) return std::nullopt;
    bytes[i] = static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

// A hyphen stands after the 4th, 6th, 8th and 10th byte.
std::optional<std::string> guid_text(std::string_view bytes, GuidOrder order) {
  if (bytes.size() != kGuidBytes) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < kGuidBytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[guid_byte(i, order)]));
  }
  return text;
}

std::optional<std::string> guid_bytes(std::string_view text, GuidOrder order) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char letter) { return letter != '-'; });
  const auto as_written = from_hex(digits);
  if (!as_written || as_written->size() != kGuidBytes) return std::nullopt;
  std::string bytes(kGuidBytes, '\0');
  for (std::size_t i = 0; i < kGuidBytes; ++i) bytes[guid_byte(i, order)] = (*as_written)[i];
  return bytes;
}

std::string hex_text(std::string_view bytes) {
  std::string text = "x'";
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text + "'";
}

std::optional<std::string> hex_bytes(std::string_view text) {
  if (!text.starts_with("x'") || !text.ends_with('\'') || text.size() < 3) return std::nullopt;
  return from_hex(text.substr(2, text.size() - 3));
}

}  // namespace outbox
