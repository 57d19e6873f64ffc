#include "tests/bench/consumer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "tests/bench/amqp_client.h"
#include "tests/bench/report.h"
#include "tests/bench/stopwatch.h"

namespace outbox::bench {
namespace {

class Consumer {
 public:
  explicit Consumer(int port) : client_(port) {
    amqp_basic_consume(client_.connection(), kChannel, bytes_of(kQueue), amqp_empty_bytes, 0, 1, 0,
                       amqp_empty_table);
    client_.check("basic.consume");
  }

  const std::vector<Instant>& record() const { return record_; }

  void take(std::size_t count) {
    while (true) {
      while (take_frame()) {
      }
      if (record_.size() >= count) return;
      std::array<pollfd, 2> watched{{{STDIN_FILENO, POLLIN, 0}, {client_.socket(), POLLIN, 0}}};
      ::poll(watched.data(), watched.size(), -1);
      if (watched[0].revents != 0) return;
    }
  }

 private:
  // False if there is none.
  bool take_frame() {
    amqp_maybe_release_buffers(client_.connection());
    const timeval at_once{0, 0};
    amqp_frame_t frame;
    const int status = amqp_simple_wait_frame_noblock(client_.connection(), &frame, &at_once);
    if (status == AMQP_STATUS_TIMEOUT) return false;
    if (status != AMQP_STATUS_OK) throw std::runtime_error(amqp_error_string2(status));
    if (frame.frame_type == AMQP_FRAME_HEADER) {
      const std::int64_t now = nanoseconds(Clock::now());
      const auto* properties =
          static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
      record_.push_back({text_of(properties->message_id), now, now});
    }
    return true;
  }

  AmqpClient client_;
  std::vector<Instant> record_;
};

}  // namespace

void run_consumer(const ConsumerOptions& options) {
  Consumer consumer(options.port);
  fmt::print("{{\"port\": {}}}\n", options.port);
  std::fflush(stdout);
  consumer.take(options.count);
  write_record(options.record, consumer.record());
  fmt::print("{{\"count\": {}}}\n", consumer.record().size());
}

}  // namespace outbox::bench
