#include "storage/sqlite/identifiers.h"

#include <fmt/format.h>

#include <array>

namespace outbox::sqlite {

std::optional<std::string> guid_text(std::string_view bytes) {
  // Which byte comes when; a hyphen stands after the 4th, 6th, 8th and 10th.
  constexpr std::array<std::size_t, 16> order{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
  if (bytes.size() != order.size()) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[order.at(i)]));
  }
  return text;
}

std::string rendered_id(const Query::Rows& rows, int index) {
  std::string text = rows.text(index);
  if (!rows.column(index).isBlob()) return text;
  return guid_text(text).value_or(text);
}

}  // namespace outbox::sqlite
