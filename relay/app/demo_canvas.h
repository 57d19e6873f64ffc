// A rectangle of characters that is drawn as a whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace outbox {

enum class Paint { plain, dim, bold, green, yellow, red, cyan };

// Text outside of the rectangle is cut off. Every character is taken to be one column wide.
class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows);

  std::size_t columns() const { return columns_; }
  std::size_t rows() const { return rows_; }

  // Puts UTF-8 text; control characters and bytes that are no UTF-8 become '?'. Returns the column
  // after the text.
  std::size_t put(std::size_t row, std::size_t column, std::string_view text,
                  Paint paint = Paint::plain);

  // The lines, without trailing blanks; with escape sequences for colours if asked.
  std::vector<std::string> lines(bool colour) const;
  // What moves a terminal to this picture.
  std::string frame(bool colour) const;

 private:
  struct Cell {
    std::string glyph = " ";
    Paint paint = Paint::plain;
  };

  std::size_t columns_;
  std::size_t rows_;
  std::vector<Cell> cells_;
};

}  // namespace outbox
