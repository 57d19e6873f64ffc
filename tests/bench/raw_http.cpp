#include "tests/bench/raw_http.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/bench/events.h"

namespace outbox::bench {
namespace {

httplib::Headers headers_for(const Event& event, const std::string& id) {
  return {{"Idempotency-Key", id},
          {"Outbox-Attempt", "1"},
          {"ce-specversion", "1.0"},
          {"ce-id", id},
          {"ce-type", event.type},
          {"ce-source", "/outbox-relay/outbox_messages"},
          {"ce-time", "2026-01-01T00:00:00.000Z"},
          {"ce-subject", event.key},
          {"User-Agent", "outbox-relay"}};
}

class Sender {
 public:
  explicit Sender(const RawHttpOptions& options)
      : options_(options), events_(load_events(options.events)) {}

  Drained run() {
    const Stopwatch watch;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < options_.connections; ++i) {
      threads.emplace_back([this] { work(); });
    }
    for (std::thread& thread : threads) thread.join();
    const Drained drained{options_.count, watch.elapsed(), watch.cpu()};
    if (!error_.empty()) throw std::runtime_error(error_);
    if (!options_.record.empty()) write_record(options_.record, record_);
    return drained;
  }

 private:
  void work() {
    httplib::Client client("127.0.0.1", options_.port);
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);
    std::vector<Instant> record;
    std::size_t number = 0;
    while ((number = next_++) < options_.count && post(client, number, record)) {
    }
    const std::lock_guard lock(mutex_);
    record_.insert(record_.end(), record.begin(), record.end());
  }

  bool post(httplib::Client& client, std::size_t number, std::vector<Instant>& record) {
    wait_for_turn(number);
    const Event& event = events_[number % events_.size()];
    const std::string id = fmt::format("{:032x}", number);
    const Clock::time_point start = Clock::now();
    const auto answer =
        client.Post("/inbox", headers_for(event, id), event.payload, "application/json");
    if (!answer || answer->status != 200) {
      const std::lock_guard lock(mutex_);
      error_ = answer ? fmt::format("the receiver answered {}", answer->status)
                      : httplib::to_string(answer.error());
      next_ = options_.count;
      return false;
    }
    if (!options_.record.empty()) {
      record.push_back({id, nanoseconds(start), nanoseconds(Clock::now())});
    }
    return true;
  }

  void wait_for_turn(std::size_t number) const {
    if (options_.rate <= 0) return;
    std::this_thread::sleep_until(started_ + std::chrono::duration_cast<Clock::duration>(Seconds(
                                                 static_cast<double>(number) / options_.rate)));
  }

  const RawHttpOptions& options_;
  const std::vector<Event> events_;
  const Clock::time_point started_ = Clock::now();
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;  // guards what follows
  std::vector<Instant> record_;
  std::string error_;
};

}  // namespace

Drained run_raw_http(const RawHttpOptions& options) { return Sender(options).run(); }

}  // namespace outbox::bench
