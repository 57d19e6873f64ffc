#include <fmt/format.h>
#include <httplib.h>

#include <cstdio>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/live_relay.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {
namespace {

constexpr std::size_t kBodyMax = 1U << 20;

const char* path_of(Probe probe) {
  switch (probe) {
    case Probe::live:
      return "/livez";
    case Probe::ready:
      return "/readyz";
    case Probe::startup:
      return "/startupz";
  }
  return "/livez";
}

}  // namespace

int healthcheck(const Config& config, Probe probe) {
  std::vector<Problem> problems;
  for (const auto& problem : config.problems) {
    if (problem.path == "http.listen") problems.push_back(problem);
  }
  if (!problems.empty()) return refuse(problems);
  const auto& listen = config.settings.listen;
  httplib::Client client(host_to_ask(listen.host), listen.port);
  client.set_connection_timeout(2);
  client.set_read_timeout(2);
  client.set_tcp_nodelay(true);
  const auto answer = client.Get(path_of(probe));
  if (!answer) {
    say(fmt::format("no relay answers at {} ({}); does it run, and is http.listen its address?",
                    format_address(listen), httplib::to_string(answer.error())));
    return kNotReachable;
  }
  const bool good = answer->status >= 200 && answer->status < 300;
  // The body is JSON: it is shown as it came, but for what a terminal would obey.
  for (const auto& line : split(answer->body, "\n")) {
    if (line.empty()) continue;
    std::fputs((printable_sentence(line, kBodyMax) + "\n").c_str(), good ? stdout : stderr);
  }
  return good ? kDone : kFailed;
}

}  // namespace outbox
