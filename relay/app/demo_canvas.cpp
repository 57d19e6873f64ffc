#include "relay/app/demo_canvas.h"

namespace outbox {

namespace {

std::string_view sequence_of(Paint paint) {
  switch (paint) {
    case Paint::plain:
      return "\x1b[0m";
    case Paint::dim:
      return "\x1b[0;2m";
    case Paint::bold:
      return "\x1b[0;1m";
    case Paint::green:
      return "\x1b[0;32m";
    case Paint::yellow:
      return "\x1b[0;33m";
    case Paint::red:
      return "\x1b[0;31m";
    case Paint::cyan:
      return "\x1b[0;36m";
  }
  return "";
}

// Bytes of the UTF-8 character that begins with this byte; 0 if none does.
std::size_t length_of(unsigned char first) {
  if (first < 0x20 || first == 0x7f) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

// Takes one character off the text.
std::string next_glyph(std::string_view& text) {
  const std::size_t length = length_of(static_cast<unsigned char>(text.front()));
  bool whole = length > 0 && length <= text.size();
  for (std::size_t at = 1; whole && at < length; ++at) whole = (text[at] & 0xc0) == 0x80;
  const std::string glyph = whole ? std::string(text.substr(0, length)) : "?";
  text.remove_prefix(whole ? length : 1);
  return glyph;
}

}  // namespace

Canvas::Canvas(std::size_t columns, std::size_t rows)
    : columns_(columns), rows_(rows), cells_(columns * rows) {}

std::size_t Canvas::put(std::size_t row, std::size_t column, std::string_view text, Paint paint) {
  while (!text.empty()) {
    std::string glyph = next_glyph(text);
    if (row < rows_ && column < columns_) cells_[row * columns_ + column] = {glyph, paint};
    column += 1;
  }
  return column;
}

std::vector<std::string> Canvas::lines(bool colour) const {
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < rows_; ++row) {
    std::size_t width = columns_;
    while (width > 0 && cells_[row * columns_ + width - 1].glyph == " ") width -= 1;
    std::string line;
    Paint current = Paint::plain;
    for (std::size_t column = 0; column < width; ++column) {
      const Cell& cell = cells_[row * columns_ + column];
      if (colour && cell.paint != current) line += sequence_of(current = cell.paint);
      line += cell.glyph;
    }
    if (current != Paint::plain) line += sequence_of(Paint::plain);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string Canvas::frame(bool colour) const {
  std::string frame = "\x1b[H";
  bool first = true;
  for (const std::string& line : lines(colour)) {
    if (!first) frame += "\r\n";
    first = false;
    frame += line + "\x1b[K";
  }
  return frame + "\x1b[J";
}

}  // namespace outbox
