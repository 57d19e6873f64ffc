#include "relay/window.h"

#include <algorithm>
#include <utility>

#include "relay/check.h"

namespace outbox {

void Window::add(std::unique_ptr<Held> held) {
  Held& row = *held;
  const bool added = rows_.emplace(row.message.row, std::move(held)).second;
  RELAY_CHECK(added);
  bytes_ += row.message.payload.size();
  retries_ += row.message.history.retry_count > 0 ? 1 : 0;
  loners_ += row.message.alone ? 1 : 0;
  if (keyed(row)) {
    auto& queue = keys_[*row.message.ordering_key];
    queue.push_back(&row);
    if (queue.size() > 1) return;
  }
  ready_.push_back(&row);
}

void Window::travel(Ticket ticket, Permit permit) {
  RELAY_CHECK(!ready_.empty());
  Held& row = *ready_.front();
  RELAY_CHECK(!row.travelling);
  ready_.pop_front();
  row.travelling = true;
  row.ticket = ticket;
  row.permit = permit;
  tickets_.emplace(ticket, &row);
}

void Window::come_back(Held& held) {
  RELAY_CHECK(held.travelling);
  tickets_.erase(held.ticket);
  held.travelling = false;
  ready_.push_front(&held);
}

Held* Window::by_ticket(Ticket ticket) {
  const auto found = tickets_.find(ticket);
  return found == tickets_.end() ? nullptr : found->second;
}

Held* Window::by_row(const RowId& row) {
  const auto found = rows_.find(row);
  return found == rows_.end() ? nullptr : found->second.get();
}

std::unique_ptr<Held> Window::remove(Held& held) {
  forget(held);
  if (keyed(held)) {
    const auto found = keys_.find(*held.message.ordering_key);
    auto& queue = found->second;
    const bool first = queue.front() == &held;
    queue.erase(std::find(queue.begin(), queue.end(), &held));
    if (queue.empty()) {
      keys_.erase(found);
    } else if (first) {
      ready_.push_back(queue.front());
    }
  }
  return extract(held);
}

std::vector<std::unique_ptr<Held>> Window::remove_with_followers(Held& held) {
  std::vector<std::unique_ptr<Held>> removed;
  forget(held);
  if (!keyed(held)) {
    removed.push_back(extract(held));
    return removed;
  }
  const auto found = keys_.find(*held.message.ordering_key);
  RELAY_CHECK(found->second.front() == &held);
  const std::deque<Held*> queue = std::move(found->second);
  keys_.erase(found);
  for (Held* row : queue) removed.push_back(extract(*row));
  return removed;
}

std::vector<std::unique_ptr<Held>> Window::remove_waiting() {
  std::vector<std::unique_ptr<Held>> removed;
  while (!ready_.empty()) {
    for (auto& row : remove_with_followers(*ready_.front())) removed.push_back(std::move(row));
  }
  for (const auto& [ticket, travelling] : tickets_) {
    if (!keyed(*travelling)) continue;
    auto& queue = keys_.at(*travelling->message.ordering_key);
    for (std::size_t i = 1; i < queue.size(); ++i) removed.push_back(extract(*queue[i]));
    queue.resize(1);
  }
  return removed;
}

// Takes the row out of the list that shows whether it is ready or travelling.
void Window::forget(Held& held) {
  if (held.travelling) {
    tickets_.erase(held.ticket);
    return;
  }
  const auto found = std::find(ready_.begin(), ready_.end(), &held);
  if (found != ready_.end()) ready_.erase(found);
}

std::unique_ptr<Held> Window::extract(Held& held) {
  const auto found = rows_.find(held.message.row);
  RELAY_CHECK(found != rows_.end());
  std::unique_ptr<Held> owned = std::move(found->second);
  rows_.erase(found);
  bytes_ -= owned->message.payload.size();
  retries_ -= owned->message.history.retry_count > 0 ? 1 : 0;
  loners_ -= owned->message.alone ? 1 : 0;
  return owned;
}

}  // namespace outbox
