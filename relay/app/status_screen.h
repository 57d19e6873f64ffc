// One screen of what an outbox and its relays are at.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "relay/app/live_relay.h"
#include "relay/inspection.h"
#include "relay/outbox_desk.h"

namespace outbox {

// Everything that a screen shows, as of one moment.
struct StatusPicture {
  std::string table;
  std::string store;   // its address, without secrets
  std::string broker;  // its name
  std::string url;     // where a relay was asked
  std::string time;    // UTC
  LiveRelay live;
  Answer<Backlog> backlog;
  Answer<StoreOverview> overview;
  // Of the picture before this one, for rates; else rates are since the relay's start.
  std::optional<LiveRelay> before;
};

// The part of `text` that fits into so many columns of a terminal. Characters that may take two are
// taken to.
std::string fitted(const std::string& text, std::size_t columns);

// At most `rows` lines of at most `columns` columns each, without control characters.
std::vector<std::string> status_lines(const StatusPicture& picture, std::size_t columns,
                                      std::size_t rows);

// The same for programs: a JSON object.
std::string status_json(const StatusPicture& picture, int indent);

}  // namespace outbox
