#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "relay/app/exit_codes.h"
#include "relay/app/operations.h"
#include "relay/app/printable.h"
#include "relay/app/status_screen.h"
#include "relay/app/terminal.h"

namespace outbox {
namespace {

constexpr auto kRedrawAfter = std::chrono::seconds{2};
constexpr std::chrono::milliseconds kKeyPatience{100};  // also how fast a signal is noticed
// Where nobody looks at a terminal, a line is as long as its text.
constexpr std::size_t kPipedColumns = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kPipedRows = 100;

class StatusSource {
 public:
  StatusSource(const Config& config, const Backends& backends, const StatusOptions& options)
      : settings_(config.settings),
        store_(backends.stores.at(scheme_of(settings_.store.url))),
        desk_(store_.open_desk(settings_.store)),
        url_(options.url.empty() ? url_of(settings_.listen) : options.url) {}

  StatusPicture look() {
    StatusPicture picture;
    picture.table = settings_.store.table;
    picture.store = redacted_url(settings_.store.url);
    picture.broker = settings_.broker;
    picture.url = url_;
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    picture.time = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", now);
    picture.live = ask_relay(url_);
    picture.backlog = desk_->backlog();
    picture.overview = store_.overview(settings_.store);
    picture.before = std::move(before_);
    before_ = picture.live;
    return picture;
  }

 private:
  const Settings& settings_;
  const StoreBackend& store_;
  const std::unique_ptr<OutboxDesk> desk_;
  const std::string url_;
  std::optional<LiveRelay> before_;
};

int exit_code_of(const StatusPicture& picture) {
  const LiveRelay& live = picture.live;
  if (!picture.backlog.ok() && !live.answers) return failure_code(picture.backlog);
  const bool usable = picture.backlog.ok() && live.state != "store_unusable";
  return usable ? kDone : kFailed;
}

std::string plain_text(const StatusPicture& picture, std::size_t columns, std::size_t rows) {
  std::string text;
  for (const std::string& line : status_lines(picture, columns, rows)) text += line + "\n";
  return text;
}

int show_once(const StatusPicture& picture, OutputFormat output) {
  std::string text;
  if (output == OutputFormat::table) {
    const bool terminal = has_terminal();
    const TerminalSize size = Terminal::size();
    // The prompt that follows needs a line of its own.
    text = terminal ? plain_text(picture, size.columns, size.rows - 1)
                    : plain_text(picture, kPipedColumns, kPipedRows);
  } else {
    text = status_json(picture, output == OutputFormat::json ? 2 : -1);
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return exit_code_of(picture);
}

// Draws over what is there, so that nothing flickers.
void draw(const StatusPicture& picture) {
  const TerminalSize size = Terminal::size();
  auto lines = status_lines(picture, size.columns, size.rows - 1);
  std::string frame = "\x1b[H";
  for (const std::string& line : lines) frame += line + "\x1b[K\r\n";
  frame += "\x1b[J" + fitted("q: quit", size.columns);
  Terminal::write(frame);
}

bool quit_within(std::chrono::steady_clock::time_point end) {
  while (std::chrono::steady_clock::now() < end && !EndSignals::asked()) {
    const auto key = Terminal::key(kKeyPatience);
    if (key == 'q' || key == 'Q') return true;
  }
  return EndSignals::asked();
}

int watch_on_terminal(StatusSource& source) {
  const EndSignals signals;
  const Terminal terminal;
  while (true) {
    const auto end = std::chrono::steady_clock::now() + kRedrawAfter;
    draw(source.look());
    if (quit_within(end)) return kDone;
  }
}

// Until it is ended by a signal, or nobody reads any more.
int watch_on_pipe(StatusSource& source, OutputFormat output) {
  const EndSignals signals;
  while (!EndSignals::asked() && std::ferror(stdout) == 0) {
    const auto end = std::chrono::steady_clock::now() + kRedrawAfter;
    show_once(source.look(), output == OutputFormat::json ? OutputFormat::jsonl : output);
    if (output == OutputFormat::table) std::fputs("\n", stdout);
    while (std::chrono::steady_clock::now() < end && !EndSignals::asked()) {
      std::this_thread::sleep_for(kKeyPatience);
    }
  }
  return kDone;
}

}  // namespace

int show_status(const Config& config, const Backends& backends, const StatusOptions& options) {
  StatusSource source(config, backends, options);
  if (!options.watch) return show_once(source.look(), options.output);
  if (options.output == OutputFormat::table && has_terminal()) return watch_on_terminal(source);
  return watch_on_pipe(source, options.output);
}

}  // namespace outbox
