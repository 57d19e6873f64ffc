#include "publishers/http/client.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "publishers/wire/text.h"

namespace outbox {

namespace {

using std::chrono::seconds;

constexpr std::uint64_t kBodyMax = 64 * 1024;
constexpr seconds kIdleMax{30};

// Whether an answer with this first line only says that the real one is still to come (RFC 9110,
// 15.2). 101 would be the last one: what follows it is no HTTP.
bool is_interim(std::string_view first_line) {
  constexpr std::string_view kVersion = "HTTP/1.";
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  if (!first_line.starts_with(kVersion) || first_line.size() < 14) return false;
  const std::string_view code = first_line.substr(9, 3);
  return first_line[8] == ' ' && code[0] == '1' && is_digit(code[1]) && is_digit(code[2]) &&
         !is_digit(first_line[12]) && code != "101";
}

// The library's view of our connection during one exchange. Interim answers are left out: of these
// the library knows only 100.
class ConnectionStream final : public httplib::Stream {
 public:
  explicit ConnectionStream(Connection& connection) : connection_(connection) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, size_t size) override {
    if (!std::exchange(answering_, true)) read_first_line();
    if (first_line_.empty()) return connection_.read(data, size);
    const std::size_t count = first_line_.copy(data, size);
    first_line_.erase(0, count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, size_t size) override {
    return connection_.write(data, size) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  // Of the real answer. The connection limits how much may come before it, and how late.
  void read_first_line() {
    first_line_ = read_line();
    while (is_interim(first_line_)) {
      while (read_line().size() > kEmptyLine) {
      }
      first_line_ = read_line();
    }
  }

  // With its end; shorter at the end of what there is, which the next read tells.
  std::string read_line() {
    std::string line;
    char letter = 0;
    while (!line.ends_with('\n') && connection_.read(&letter, 1) == 1) line += letter;
    return line;
  }

  static constexpr std::size_t kEmptyLine = 2;  // CR and LF

  Connection& connection_;
  bool answering_ = false;
  std::string first_line_;
};

// "timeout=5, max=100" gives 5 s; nothing gives the longest that we would wait ourselves.
Duration announced_idle_time(const std::string& keep_alive) {
  const std::string lower = to_lower(keep_alive);
  const auto at = lower.find("timeout=");
  if (at == std::string::npos) return kIdleMax;
  std::string_view digits = std::string_view(lower).substr(at + 8);
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  if (digits.size() > 4) return kIdleMax;
  int value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  return seconds{value};
}

bool says_close(const std::string& connection_header) {
  return to_lower(connection_header).find("close") != std::string::npos;
}

}  // namespace

HttpClient::HttpClient(const Endpoint& endpoint, const PublisherSettings& settings,
                       Credentials& credentials, TlsContext* tls, Resolver& resolver,
                       const Clock& clock)
    : ClientImpl(endpoint.host, endpoint.port),
      clock_(clock),
      connection_(tls, resolver, clock),
      credentials_(credentials),
      on_certificate_(settings.on_certificate) {
  set_keep_alive(true);
  set_follow_location(false);
  set_decompress(false);
  set_url_encode(false);  // paths are encoded already
}

Exchange HttpClient::exchange(const HttpRequest& request, Time deadline) {
  Exchange exchange;
  connection_.begin_attempt(deadline);
  if (!prepare_connection(exchange)) return exchange;
  httplib::Request library_request = to_library(request);
  httplib::Response response;
  bool head_complete = false;
  library_request.response_handler = [&](const httplib::Response&) {
    head_complete = true;
    connection_.head_is_complete();
    return true;
  };
  library_request.content_receiver = [](const char*, size_t size, std::uint64_t offset,
                                        std::uint64_t) { return offset + size <= kBodyMax; };
  auto error = httplib::Error::Success;
  const bool complete = send(library_request, response, error);
  exchange.wrote = connection_.wrote();
  exchange.timed_out = connection_.timed_out();
  if ((complete || head_complete) && response.status > 0) {
    exchange.answer = {response.status, response.get_header_value("Retry-After"),
                       response.get_header_value("Date")};
    remember_keep_alive(response);
  } else {
    exchange.error = connection_.error();
    if (exchange.error.empty()) exchange.error = "the connection was closed without an HTTP answer";
  }
  return exchange;
}

// Drops a connection that can't be trusted with a request, and brings the secrets up to date.
bool HttpClient::prepare_connection(Exchange& exchange) {
  const bool fresh = clock_.now() - last_used_ < idle_max_;
  if (connection_.is_open() && !(fresh && connection_.is_quiet())) stop();
  Credentials::Current current = credentials_.current(rejected_);
  secret_headers_ = std::move(current.headers);
  exchange.error = std::move(current.error);
  exchange.attempted = exchange.error.empty();
  return exchange.attempted;
}

httplib::Request HttpClient::to_library(const HttpRequest& request) {
  httplib::Request library_request;
  library_request.method = request.method;
  library_request.path = request.path;
  for (const Header& header : request.headers) {
    library_request.headers.emplace(header.name, header.value);
  }
  for (const Header& header : secret_headers_) {
    library_request.headers.emplace(header.name, header.value);
  }
  if (request.payload == nullptr) return library_request;
  // Lent rather than given: the library copies a request once more while it sends it. And lent
  // once, so that no version of it can send the event a second time on a connection of its own
  // choice.
  library_request.content_length_ = request.body().size();
  library_request.content_provider_ = [body = request.body(), lent = false](
                                          size_t offset, size_t length,
                                          httplib::DataSink& sink) mutable {
    if (std::exchange(lent, true)) return false;
    return sink.write(body.data() + offset, length);
  };
  return library_request;
}

void HttpClient::remember_keep_alive(const httplib::Response& response) {
  last_used_ = clock_.now();
  rejected_ = response.status == 401 || response.status == 403;
  // The receiver counts from when it sent the answer; a second of margin, or half of a short time.
  const Duration announced = announced_idle_time(response.get_header_value("Keep-Alive"));
  idle_max_ = std::min<Duration>(std::max(announced - seconds{1}, announced / 2), kIdleMax);
  if (says_close(response.get_header_value("Connection"))) stop();
}

bool HttpClient::create_and_connect_socket(Socket& socket, httplib::Error& error) {
  if (!connection_.open()) {
    error = httplib::Error::Connection;
    return false;
  }
  const auto facts = on_certificate_ ? connection_.tls_facts() : std::nullopt;
  if (facts) on_certificate_(facts->expires);
  socket.sock = ::eventfd(0, EFD_CLOEXEC);
  return true;
}

void HttpClient::shutdown_ssl(Socket&, bool) { connection_.close(); }

bool HttpClient::process_socket(const Socket&,
                                std::function<bool(httplib::Stream& stream)> callback) {
  ConnectionStream stream(connection_);
  return callback(stream);
}

}  // namespace outbox
