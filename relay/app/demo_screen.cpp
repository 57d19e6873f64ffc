#include "relay/app/demo_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace outbox {

namespace {

constexpr std::size_t kMargin = 2;
constexpr std::size_t kChartRows = 4;
constexpr std::size_t kChartColumn = 12;

struct Glyphs {
  std::string arrow;
  std::string dot;
  std::string bar;
  std::array<std::string, 9> levels;  // from nothing to a full cell
};

const Glyphs& glyphs(bool unicode) {
  static const Glyphs rich{"━━▶", "●", "│", {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
  static const Glyphs plain{"-->", "*", "|", {" ", ".", ".", ":", ":", ":", "|", "#", "#"}};
  return unicode ? rich : plain;
}

Paint paint_of(const std::string& circuit) {
  if (circuit == "closed") return Paint::green;
  if (circuit == "open") return Paint::red;
  return Paint::yellow;
}

std::string shout(const std::string& circuit) {
  if (circuit == "closed") return "CLOSED";
  if (circuit == "open") return "OPEN";
  if (circuit == "half_open") return "HALF-OPEN";
  if (circuit == "isolated") return "ISOLATED";
  return "starting";
}

// The four stations that an event passes.
void draw_flow(Canvas& canvas, const DemoView& view, const Glyphs& glyph) {
  struct Station {
    std::string title;
    std::array<std::string, 3> lines;
    Paint paint;
  };
  const auto& backlog = view.backlog;
  const bool well = view.mood == ReceiverMood::working;
  const std::array<Station, 4> stations{{
      {"writer",
       {fmt::format("{:.1f} events/s", view.write_rate), fmt::format("{} written", view.written),
        ""},
       Paint::plain},
      {"outbox",
       {fmt::format("{} waiting", waiting_in(backlog)), fmt::format("{} leased", backlog.leased),
        fmt::format("{} failed before", backlog.failed)},
       Paint::plain},
      {"relay",
       {shout(view.relay.circuit), fmt::format("{:.0f} attempts", view.relay.attempts),
        fmt::format("{:.0f} turned away", view.relay.short_circuited)},
       paint_of(view.relay.circuit)},
      {"receiver",
       {fmt::format("{:.1f} events/s", view.receive_rate),
        fmt::format("{} received", view.receiver.received),
        fmt::format("{} twice", view.receiver.repeated)},
       well ? Paint::plain : Paint::red},
  }};
  const std::size_t step = (canvas.columns() - kMargin) / stations.size();
  for (std::size_t at = 0; at < stations.size(); ++at) {
    const std::size_t column = kMargin + at * step;
    canvas.put(2, column, stations[at].title, Paint::bold);
    for (std::size_t line = 0; line < 3; ++line) {
      const Paint paint = line == 0 ? stations[at].paint : Paint::dim;
      canvas.put(3 + line, column, stations[at].lines[line], paint);
    }
    if (at + 1 < stations.size()) canvas.put(2, column + step - 6, glyph.arrow, Paint::dim);
  }
}

void draw_circuit(Canvas& canvas, const DemoView& view, const Glyphs& glyph) {
  const RelayNumbers& relay = view.relay;
  canvas.put(7, kMargin, "circuit", Paint::bold);
  std::size_t column =
      canvas.put(7, kChartColumn, glyph.dot + " " + shout(relay.circuit), paint_of(relay.circuit));
  column = canvas.put(7, column + 1, "for " + for_people(view.circuit_for));
  if (relay.circuit == "open") {
    column = canvas.put(7, column, fmt::format(", next probe in {:.0f} s", relay.next_probe),
                        Paint::yellow);
  }
  const std::string history =
      fmt::format("opened {:.0f}x, {:.0f} probes", relay.opened, relay.probes);
  canvas.put(7, std::max(column + 3, canvas.columns() - history.size() - kMargin), history,
             Paint::dim);
  canvas.put(8, kMargin, "receiver", Paint::bold);
  const bool well = view.mood == ReceiverMood::working;
  canvas.put(8, kChartColumn, glyph.dot + " " + name_of(view.mood),
             well ? Paint::green : Paint::red);
}

// The backlog of the last minutes, one column a second, scaled to its peak in view.
void draw_backlog(Canvas& canvas, const DemoView& view, const Glyphs& glyph) {
  constexpr std::size_t kTop = 10;
  const std::size_t columns = canvas.columns() - kChartColumn - kMargin - 1;
  const std::size_t count = std::min(columns, view.waiting.size());
  const auto first = view.waiting.end() - static_cast<std::ptrdiff_t>(count);
  const std::uint64_t peak =
      std::max<std::uint64_t>(8, count == 0 ? 0 : *std::max_element(first, view.waiting.end()));
  canvas.put(kTop, kMargin, "waiting", Paint::bold);
  canvas.put(kTop + 1, kMargin, fmt::format("{}", waiting_in(view.backlog)));
  canvas.put(kTop + 2, kMargin, "oldest", Paint::bold);
  canvas.put(kTop + 3, kMargin, for_people(std::chrono::duration<double>(view.relay.oldest_age)));
  for (std::size_t row = 0; row < kChartRows; ++row) {
    canvas.put(kTop + row, kChartColumn, glyph.bar, Paint::dim);
  }
  for (std::size_t at = 0; at < count; ++at) {
    const auto value = static_cast<double>(*(first + static_cast<std::ptrdiff_t>(at)));
    const double height = value * kChartRows / static_cast<double>(peak);  // in rows
    for (std::size_t row = 0; row < kChartRows; ++row) {
      const double part = std::clamp(height - static_cast<double>(row), 0.0, 1.0);
      const auto level = static_cast<std::size_t>(std::ceil(part * 8));
      canvas.put(kTop + kChartRows - 1 - row, kChartColumn + 1 + at, glyph.levels[level],
                 Paint::cyan);
    }
  }
  const std::string scale = fmt::format(" peak {} ", peak);
  if (peak > 8) canvas.put(kTop, canvas.columns() - scale.size() - kMargin, scale, Paint::dim);
}

// Returns the row below.
std::size_t draw_dead_letters(Canvas& canvas, const DemoView& view) {
  constexpr std::size_t kTop = 15;
  constexpr std::size_t kShown = 2;
  const std::size_t total = view.dead_letters.size();
  canvas.put(kTop, kMargin, "dead letters", Paint::bold);
  canvas.put(kTop, kMargin + 13, fmt::format("{}", total), total == 0 ? Paint::dim : Paint::red);
  for (std::size_t at = 0; at < std::min(total, kShown); ++at) {
    const DeadLetter& letter = view.dead_letters[at];
    canvas.put(kTop + 1 + at, kMargin + 2,
               fmt::format("{}  {}  {}", letter.event_type, letter.reason, letter.last_error));
  }
  return kTop + 1 + std::min(total, kShown);
}

void draw_log(Canvas& canvas, const DemoView& view, std::size_t top, std::size_t bottom) {
  if (top + 1 >= bottom) return;
  canvas.put(top, kMargin, "the relay's log", Paint::bold);
  const std::size_t room = bottom - top - 1;
  const std::size_t count = std::min(room, view.log.size());
  for (std::size_t at = 0; at < count; ++at) {
    canvas.put(top + 1 + at, kMargin, view.log[view.log.size() - count + at], Paint::dim);
  }
}

}  // namespace

std::string for_people(std::chrono::duration<double> span) {
  const double seconds = std::max(0.0, span.count());
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

Canvas draw(const DemoView& view, const std::string& message, std::size_t columns, std::size_t rows,
            bool unicode) {
  // In a window that is too small, places wrap around to huge numbers and are cut off with the
  // rest.
  Canvas canvas(std::max<std::size_t>(columns, 1), std::max<std::size_t>(rows, 1));
  const Glyphs& glyph = glyphs(unicode);
  canvas.put(0, kMargin, "outbox-relay", Paint::bold);
  canvas.put(0, kMargin + 13, "events from a SQLite outbox to HTTP", Paint::dim);
  const std::string clock = for_people(view.elapsed);
  canvas.put(0, canvas.columns() - clock.size() - kMargin, clock, Paint::dim);
  draw_flow(canvas, view, glyph);
  draw_circuit(canvas, view, glyph);
  draw_backlog(canvas, view, glyph);
  const std::size_t below = draw_dead_letters(canvas, view);
  const std::size_t last = canvas.rows() - 1;
  draw_log(canvas, view, below + 1, last - 1);
  for (std::size_t row : {last - 1, last}) canvas.put(row, 0, std::string(columns, ' '));
  canvas.put(last - 1, kMargin, message, Paint::yellow);
  canvas.put(last, kMargin,
             "b break/mend   h hang/mend   p poison the next event   r redrive   q quit",
             Paint::bold);
  return canvas;
}

}  // namespace outbox
