// A peer that speaks AMQP as a script says: for moments that no real broker can be brought to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace outbox::testing {

// One connection, seen from the broker. Each call ends the script, by an exception, when the client
// has gone.
class ScriptedPeer {
 public:
  explicit ScriptedPeer(int socket) : socket_(socket) {}

  // Up to the client's channels and confirm.select. `tune`: whether it gets as far as that.
  void greet();
  void start();
  // Waits for the whole of the client's next message.
  void wait_for_publish();
  void wait_for_close();

  void send(std::string_view bytes);
  void send_method(std::uint16_t channel, std::uint16_t klass, std::uint16_t method,
                   const std::string& arguments);
  void ack(std::uint64_t tag, bool multiple = false) { confirm(80, tag, multiple); }
  void nack(std::uint64_t tag, bool multiple = false) { confirm(120, tag, multiple); }
  void return_message(const std::string& id, const std::string& body);
  void close_channel(std::uint16_t code, const std::string& text);
  void close_connection(std::uint16_t code, const std::string& text);

 private:
  struct Frame {
    std::uint8_t type = 0;
    std::uint16_t channel = 0;
    std::string payload;
  };
  Frame read_frame();
  std::string read(std::size_t size);
  void answer(std::uint16_t klass, std::uint16_t method);
  void confirm(std::uint16_t method, std::uint64_t tag, bool multiple);

  const int socket_;
};

// Plays the script to everybody who connects, one after the other.
class ScriptedBroker {
 public:
  explicit ScriptedBroker(std::function<void(ScriptedPeer&)> script);
  ~ScriptedBroker();
  ScriptedBroker(const ScriptedBroker&) = delete;
  ScriptedBroker& operator=(const ScriptedBroker&) = delete;

  std::string url() const;

 private:
  void serve();

  const std::function<void(ScriptedPeer&)> script_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// Numbers and short strings as they go over the wire.
std::string wire_number(std::uint64_t number, int bytes);
std::string wire_text(const std::string& text);

}  // namespace outbox::testing
