#include "tests/bench/raw_rabbitmq.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <array>
#include <deque>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bench/amqp_client.h"
#include "tests/bench/events.h"

namespace outbox::bench {
namespace {

constexpr std::uint8_t kPersistent = 2;
constexpr std::uint64_t kTimestamp = 1'767'225'600;
constexpr time_t kConfirmMax = 30;  // seconds

struct Sent {
  std::uint64_t tag = 0;
  Instant instant;
  bool confirmed = false;
};

amqp_table_entry_t header(std::string_view name, std::string_view value) {
  amqp_table_entry_t entry{};
  entry.key = bytes_of(name);
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes_of(value);
  return entry;
}

class RawRabbitmq {
 public:
  explicit RawRabbitmq(const RawRabbitmqOptions& options)
      : options_(options), events_(load_events(options.events)), client_(options.port) {
    amqp_confirm_select(client_.connection(), kChannel);
    client_.check("confirm.select");
  }

  Drained run() {
    const Stopwatch watch;
    const Clock::time_point started = Clock::now();
    for (std::size_t number = 0; number < options_.count; ++number) {
      if (options_.rate > 0) wait_for_turn(started, number);
      publish(number);
      while (flights_.size() >= options_.window) hear(true);
      while (hear(false)) {
      }
      // What is measured is each message's own time.
      while (options_.rate > 0 && !flights_.empty()) hear(true);
    }
    while (!flights_.empty()) hear(true);
    const Drained drained{options_.count, watch.elapsed(), watch.cpu()};
    if (!options_.record.empty()) write_record(options_.record, record_);
    return drained;
  }

 private:
  void wait_for_turn(Clock::time_point started, std::size_t number) const {
    const Seconds after(static_cast<double>(number) / options_.rate);
    std::this_thread::sleep_until(started + std::chrono::duration_cast<Clock::duration>(after));
  }

  void publish(std::size_t number) {
    const Event& event = events_[number % events_.size()];
    const std::string id = fmt::format("{:032x}", number);
    std::array<amqp_table_entry_t, 7> headers{
        header("outbox-attempt", "1"),
        header("cloudEvents_specversion", "1.0"),
        header("cloudEvents_id", id),
        header("cloudEvents_type", event.type),
        header("cloudEvents_source", "/outbox-relay/outbox_messages"),
        header("cloudEvents_time", "2026-01-01T00:00:00.000Z"),
        header("cloudEvents_subject", event.key)};
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                        AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                        AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG;
    properties.content_type = bytes_of("application/json");
    properties.delivery_mode = kPersistent;
    properties.message_id = bytes_of(id);
    properties.type = bytes_of(event.type);
    properties.timestamp = kTimestamp;
    properties.headers = {static_cast<int>(headers.size()), headers.data()};
    flights_.push_back({++last_tag_, {id, nanoseconds(Clock::now()), 0}});
    const int status =
        amqp_basic_publish(client_.connection(), kChannel, bytes_of(kExchange),
                           bytes_of(event.type), 1, 0, &properties, bytes_of(event.payload));
    if (status != AMQP_STATUS_OK) throw std::runtime_error(amqp_error_string2(status));
  }

  // Takes one frame in; false if there is none.
  bool hear(bool wait) {
    amqp_maybe_release_buffers(client_.connection());
    const timeval patience{wait ? kConfirmMax : 0, 0};
    amqp_frame_t frame;
    const int status = amqp_simple_wait_frame_noblock(client_.connection(), &frame, &patience);
    if (status == AMQP_STATUS_TIMEOUT && !wait) return false;
    if (status != AMQP_STATUS_OK) throw std::runtime_error(amqp_error_string2(status));
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD) {
      throw std::runtime_error("the broker did not confirm a message");
    }
    const auto* ack = static_cast<const amqp_basic_ack_t*>(frame.payload.method.decoded);
    confirm(ack->delivery_tag, ack->multiple != 0);
    return true;
  }

  // Confirms come single and for all up to one, mixed.
  void confirm(std::uint64_t tag, bool multiple) {
    const std::int64_t now = nanoseconds(Clock::now());
    for (Sent& sent : flights_) {
      if (sent.tag > tag) break;
      if ((!multiple && sent.tag != tag) || sent.confirmed) continue;
      sent.confirmed = true;
      sent.instant.to = now;
      if (!options_.record.empty()) record_.push_back(sent.instant);
    }
    while (!flights_.empty() && flights_.front().confirmed) flights_.pop_front();
  }

  const RawRabbitmqOptions& options_;
  const std::vector<Event> events_;
  AmqpClient client_;
  std::uint64_t last_tag_ = 0;
  std::deque<Sent> flights_;  // by tag
  std::vector<Instant> record_;
};

}  // namespace

Drained run_raw_rabbitmq(const RawRabbitmqOptions& options) { return RawRabbitmq(options).run(); }

}  // namespace outbox::bench
