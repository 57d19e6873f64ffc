#include "publishers/stdout/stdout_publisher.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <nlohmann/json.hpp>
#include <thread>

#include "relay/app/boot_clock.h"
#include "tests/conformance/publisher_conformance.h"

namespace outbox::testing {

namespace {

// A pipe whose reader can stop reading.
class Pipe {
 public:
  Pipe() {
    REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0);
    reader_ = std::thread([this] { read_on(); });
  }
  ~Pipe() {
    stopping_ = true;
    reader_.join();
    close_reading_end();
    ::close(ends_[1]);
  }

  int writing_end() const { return ends_[1]; }
  void set_reading(bool reading) { reading_ = reading; }
  void close_reading_end() {
    const std::lock_guard lock(mutex_);
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  // Everything that was written so far.
  std::string all_text() {
    const auto drained = [this] {
      const std::lock_guard lock(mutex_);
      int left = 0;
      return ::ioctl(ends_[0], FIONREAD, &left) == 0 && left == 0;
    };
    CHECK(eventually(drained));
    return text();
  }

 private:
  void read_on() {
    std::array<char, 65536> buffer;
    while (!stopping_) {
      const std::lock_guard lock(mutex_);
      pollfd readable{ends_[0], POLLIN, 0};
      if (!reading_ || ::poll(&readable, 1, 1) <= 0) continue;
      const ssize_t count = ::read(ends_[0], buffer.data(), buffer.size());
      if (count > 0) text_.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }

  std::array<int, 2> ends_{-1, -1};
  mutable std::mutex mutex_;
  std::string text_;
  std::atomic<bool> reading_ = true;
  std::atomic<bool> stopping_ = false;
  std::thread reader_;
};

std::vector<nlohmann::json> parsed_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

std::string decode_base64(const std::string& text) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6) | static_cast<unsigned>(alphabet.find(c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>((bits >> held) & 0xFF);
  }
  return bytes;
}

// The payload's bytes as they stand in the line: parsed and printed again they might differ.
std::string raw_data(const std::string& line) {
  const std::string mark = "\"data\":";
  const auto at = line.rfind(mark);
  REQUIRE(at != std::string::npos);
  return line.substr(at + mark.size(), line.size() - at - mark.size() - 1);
}

class StdoutBroker final : public BrokerUnderTest {
 public:
  PublisherSettings settings() override {
    PublisherSettings settings;
    settings.url = "stdout:";
    return settings;
  }
  std::unique_ptr<Publisher> open(const PublisherSettings& settings, const Clock& clock,
                                  ReceiptSink& sink) override {
    return std::make_unique<StdoutPublisher>(pipe_.writing_end(), settings, clock, sink);
  }
  std::vector<Arrival> arrivals() override {
    std::vector<Arrival> arrivals;
    const std::string text = pipe_.all_text();
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      arrivals.push_back(to_arrival(text.substr(at, end - at)));
      at = end + 1;
    }
    return arrivals;
  }
  // Line breaks between the tokens of JSON become spaces.
  std::string as_shown(const std::string& payload) const override {
    std::string shown = payload;
    if (nlohmann::json::accept(payload)) std::ranges::replace(shown, '\n', ' ');
    return shown;
  }
  bool stall() override {
    pipe_.set_reading(false);
    // Full from the start, so that not even the first line fits.
    const std::string filler(PIPE_BUF - 1, ' ');
    while (writable()) {
      if (::write(pipe_.writing_end(), (filler + "\n").data(), PIPE_BUF) < 0) break;
    }
    return true;
  }
  void resume() override { pipe_.set_reading(true); }
  bool disconnect() override {
    pipe_.close_reading_end();
    return true;
  }
  bool make_unsendable(Message& message) override {
    message.ordering_key = "\xC3\x28";
    return true;
  }

 private:
  bool writable() {
    pollfd state{pipe_.writing_end(), POLLOUT, 0};
    return ::poll(&state, 1, 0) > 0;
  }
  static Arrival to_arrival(const std::string& line) {
    const nlohmann::json event = nlohmann::json::parse(line);
    Arrival arrival;
    arrival.id = event.at("id");
    arrival.event_type = event.at("type");
    arrival.key = event.value("key", "");
    arrival.payload = event.contains("data") ? raw_data(line) : decode_base64(event["data_base64"]);
    for (const auto& [name, value] : event.at("headers").items()) {
      arrival.headers.push_back({name, value});
    }
    return arrival;
  }

  Pipe pipe_;
};

}  // namespace

TEST_CASE("stdout keeps what a publisher promises") {
  check_publisher([] { return std::make_unique<StdoutBroker>(); });
}

TEST_CASE("stdout completes a line that was cut short before it begins another") {
  Pipe pipe;
  const BootClock clock;
  RecordingSink sink;
  PublisherSettings settings;
  settings.publish_timeout = std::chrono::milliseconds{100};
  Message large = make_message("large");
  large.payload = "\"" + std::string(512 * 1024, 'x') + "\"";
  const Message small = make_message("small");
  const std::array<Publication, 2> publications = {publication_of(large, 1),
                                                   publication_of(small, 2)};
  StdoutPublisher publisher(pipe.writing_end(), settings, clock, sink);
  pipe.set_reading(false);
  REQUIRE(publisher.submit(std::span(publications).first(1)) == 1);
  REQUIRE(sink.wait_for(1));
  CHECK(sink.only(1).outcome == Outcome::transport);
  CHECK(sink.only(1).outcome_unknown);
  pipe.set_reading(true);
  // The rest of the line may take longer than one attempt has.
  Ticket ticket = 2;
  const bool confirmed = eventually([&] {
    Publication publication = publications[1];
    publication.ticket = ticket++;
    REQUIRE(publisher.submit(std::span(&publication, 1)) == 1);
    REQUIRE(sink.wait_for(publication.ticket));
    return sink.only(publication.ticket).outcome == Outcome::confirmed;
  });
  REQUIRE(confirmed);
  const std::vector<nlohmann::json> lines = parsed_lines(pipe.all_text());
  REQUIRE(lines.size() >= 2);
  CHECK(lines.front()["id"] == "large");
  CHECK(lines.back()["id"] == "small");
}

TEST_CASE("stdout survives a reader that went away and says so") {
  Pipe pipe;
  const BootClock clock;
  RecordingSink sink;
  const Message message = make_message("one");
  const Publication publication = publication_of(message, 1);
  StdoutPublisher publisher(pipe.writing_end(), PublisherSettings{}, clock, sink);
  pipe.close_reading_end();
  REQUIRE(publisher.submit(std::span(&publication, 1)) == 1);
  REQUIRE(sink.wait_for(1));
  CHECK(sink.only(1).outcome == Outcome::transport);
  CHECK_FALSE(sink.only(1).outcome_unknown);
  CHECK(sink.only(1).reason.find("Broken pipe") != std::string::npos);
}

TEST_CASE("stdout refuses a url with something behind the scheme") {
  Backends backends;
  add_stdout_publisher(backends);
  PublisherSettings settings;
  settings.url = "stdout:/tmp/file";
  const auto defects = backends.publishers.at("stdout").check(settings);
  REQUIRE(defects.size() == 1);
  CHECK(defects[0].setting == "url");
  settings.url = "stdout:";
  CHECK(backends.publishers.at("stdout").check(settings).empty());
}

}  // namespace outbox::testing
