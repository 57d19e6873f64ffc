// dead-letters export: one JSON object a line.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "publishers/wire/text.h"
#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {
namespace {

constexpr mode_t kFileMode = 0600;  // payloads are nobody else's business

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

void put(nlohmann::ordered_json& object, const char* name, const std::string& text) {
  if (!text.empty()) object[name] = text;
}

std::string line_of(const ExportedLetter& exported) {
  const DeadLetter& letter = exported.letter;
  nlohmann::ordered_json object = {{"id", letter.id}, {"eventType", letter.event_type}};
  put(object, "orderingKey", letter.ordering_key);
  put(object, "destination", exported.destination);
  put(object, "contentType", exported.content_type);
  put(object, "traceparent", exported.traceparent);
  put(object, "headers", exported.headers);
  put(object, "occurredOn", letter.occurred_on);
  put(object, "diedOn", letter.died_on);
  object["reason"] = letter.reason;
  object["attempts"] = letter.attempts;
  put(object, "lastError", letter.last_error);
  if (is_valid_utf8(exported.payload)) {
    object["payload"] = exported.payload;
  } else {
    object["payloadBase64"] = base64(exported.payload);
  }
  return dump(object, -1) + "\n";
}

// Never writes over a file: an export may be all that is left of rows that were discarded.
File create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
  return File(descriptor < 0 ? nullptr : ::fdopen(descriptor, "w"));
}

// Whether all that was written is where it belongs.
bool finish(std::FILE* out, bool to_disk) {
  const bool flushed = std::fflush(out) == 0 && std::ferror(out) == 0;
  return flushed && (!to_disk || ::fsync(::fileno(out)) == 0);
}

}  // namespace

int export_dead_letters(const Config& config, const Backends& backends,
                        const DeadLetterOptions& options) {
  File file;
  if (!options.file.empty()) {
    file = create(options.file);
    if (!file) {
      say(fmt::format("cannot create {}: {}", printable(options.file), std::strerror(errno)));
      return kFailed;
    }
  }
  std::FILE* const out = file ? file.get() : stdout;
  std::set<std::string> missing(options.filter.ids.begin(), options.filter.ids.end());
  const auto desk = open_desk(config, backends);
  const auto exported =
      desk->export_dead_letters(options.filter, [&](const ExportedLetter& letter) {
        missing.erase(letter.letter.id);
        const std::string line = line_of(letter);
        return std::fwrite(line.data(), 1, line.size(), out) == line.size();
      });
  if (!exported.ok()) {
    const int code = tell_failure(exported);
    return exported.value > 0 ? kPartlyDone : code;
  }
  if (!finish(out, file != nullptr)) {
    say(fmt::format("writing failed: {}", std::strerror(errno)));
    return exported.value > 0 ? kPartlyDone : kFailed;
  }
  say(fmt::format("{} exported", counted(exported.value, "dead letter")));
  tell_limit(exported.value, options.filter.limit);
  return tell_missing("dead letter", missing) ? kNotFound : kDone;
}

}  // namespace outbox
