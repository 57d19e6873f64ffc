#include "tests/conformance/scripted_broker.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace outbox::testing {

namespace {

constexpr std::uint8_t kMethod = 1;
constexpr std::uint8_t kHeader = 2;
constexpr std::uint8_t kBody = 3;
constexpr char kFrameEnd = '\xCE';
constexpr std::uint16_t kConnection = 10;
constexpr std::uint16_t kChannel = 20;
constexpr std::uint16_t kBasic = 60;
constexpr std::uint16_t kConfirm = 85;

struct PeerHasGone : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::uint64_t number_at(std::string_view bytes, std::size_t at, int size) {
  std::uint64_t number = 0;
  for (int i = 0; i < size; ++i) number = number << 8 | static_cast<std::uint8_t>(bytes.at(at++));
  return number;
}

std::string frame(std::uint8_t type, std::uint16_t channel, const std::string& payload) {
  return wire_number(type, 1) + wire_number(channel, 2) + wire_number(payload.size(), 4) + payload +
         kFrameEnd;
}

}  // namespace

std::string wire_number(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> (8 * i) & 0xFF);
  return text;
}

std::string wire_text(const std::string& text) { return wire_number(text.size(), 1) + text; }

std::string ScriptedPeer::read(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::recv(socket_, bytes.data() + at, size - at, 0);
    if (got <= 0) throw PeerHasGone("the client has gone");
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

ScriptedPeer::Frame ScriptedPeer::read_frame() {
  const std::string head = read(7);
  Frame frame;
  frame.type = static_cast<std::uint8_t>(number_at(head, 0, 1));
  frame.channel = static_cast<std::uint16_t>(number_at(head, 1, 2));
  frame.payload = read(number_at(head, 3, 4));
  read(1);
  return frame;
}

void ScriptedPeer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw PeerHasGone("the client has gone");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void ScriptedPeer::send_method(std::uint16_t channel, std::uint16_t klass, std::uint16_t method,
                               const std::string& arguments) {
  send(frame(kMethod, channel, wire_number(klass, 2) + wire_number(method, 2) + arguments));
}

// Reads the client's next method and answers it without arguments to speak of.
void ScriptedPeer::answer(std::uint16_t klass, std::uint16_t method) {
  const std::uint16_t channel = read_frame().channel;
  const bool long_text = klass == kChannel;
  send_method(channel, klass, method, long_text ? wire_number(0, 4) : wire_number(0, 1));
}

void ScriptedPeer::start() {
  read(8);  // the protocol's name
  const std::string plain = "PLAIN";
  const std::string locale = "en_US";
  send_method(0, kConnection, 10,
              wire_number(0x0009, 2) + wire_number(0, 4) + wire_number(plain.size(), 4) + plain +
                  wire_number(locale.size(), 4) + locale);
  read_frame();
}

void ScriptedPeer::greet() {
  start();
  send_method(0, kConnection, 30, wire_number(0, 2) + wire_number(131072, 4) + wire_number(0, 2));
  read_frame();
  answer(kConnection, 41);
  answer(kChannel, 11);
  answer(kChannel, 11);
  answer(kConfirm, 11);
}

void ScriptedPeer::wait_for_publish() {
  while (true) {
    const Frame frame = read_frame();
    if (frame.type != kHeader) continue;
    std::uint64_t left = number_at(frame.payload, 4, 8);
    while (left > 0) left -= read_frame().payload.size();
    return;
  }
}

void ScriptedPeer::wait_for_close() {
  while (true) read(1);
}

void ScriptedPeer::confirm(std::uint16_t method, std::uint64_t tag, bool multiple) {
  send_method(1, kBasic, method, wire_number(tag, 8) + wire_number(multiple ? 1 : 0, 1));
}

void ScriptedPeer::return_message(const std::string& id, const std::string& body) {
  constexpr std::uint64_t kMessageId = 1u << 7;
  send_method(1, kBasic, 50,
              wire_number(312, 2) + wire_text("NO_ROUTE") + wire_text("x") + wire_text("k"));
  send(frame(kHeader, 1,
             wire_number(kBasic, 2) + wire_number(0, 2) + wire_number(body.size(), 8) +
                 wire_number(kMessageId, 2) + wire_text(id)));
  if (!body.empty()) send(frame(kBody, 1, body));
}

void ScriptedPeer::close_channel(std::uint16_t code, const std::string& text) {
  send_method(1, kChannel, 40,
              wire_number(code, 2) + wire_text(text) + wire_number(kBasic, 2) + wire_number(40, 2));
}

void ScriptedPeer::close_connection(std::uint16_t code, const std::string& text) {
  send_method(0, kConnection, 50, wire_number(code, 2) + wire_text(text) + wire_number(0, 4));
}

ScriptedBroker::ScriptedBroker(std::function<void(ScriptedPeer&)> script)
    : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("the scripted broker can't listen");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ScriptedBroker::~ScriptedBroker() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

std::string ScriptedBroker::url() const { return fmt::format("amqp://127.0.0.1:{}", port_); }

void ScriptedBroker::serve() {
  while (true) {
    const int socket = ::accept(listener_, nullptr, nullptr);
    if (socket < 0) return;
    ScriptedPeer peer(socket);
    try {
      script_(peer);
    } catch (const PeerHasGone&) {
    }
    ::close(socket);
  }
}

}  // namespace outbox::testing
