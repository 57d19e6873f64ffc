#include "storage/postgres/location.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>

#include "storage/postgres/errors.h"
#include "storage/postgres/libpq.h"

namespace outbox::postgres {
namespace {

constexpr const char* kSystemAuthorities = "/etc/ssl/certs/ca-certificates.crt";
constexpr const char* kDefaultPort = "5432";
constexpr std::string_view kTarget = "target_session_attrs";
constexpr std::size_t kPasswordBytesMax = 4096;

// What a URL may say; the rest is the relay's business.
constexpr std::array<std::string_view, 14> kAllowed{"host",        "port",
                                                    "user",        "dbname",
                                                    "password",    "sslmode",
                                                    "sslrootcert", "sslcert",
                                                    "sslkey",      "sslcrl",
                                                    "passfile",    "channel_binding",
                                                    "gssencmode",  "target_session_attrs"};

constexpr std::array<std::string_view, 6> kModes{"disable", "allow",     "prefer",
                                                 "require", "verify-ca", "verify-full"};

using Options = std::vector<std::pair<std::string, std::string>>;

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { libpq().PQconninfoFree(options); }
};

std::string option(const Options& options, std::string_view name) {
  for (const auto& [key, value] : options) {
    if (key == name) return value;
  }
  return {};
}

Options parsed(const std::string& url) {
  char* error = nullptr;
  const std::unique_ptr<PQconninfoOption, FreeOptions> found(
      libpq().PQconninfoParse(url.c_str(), &error));
  const std::string text = error == nullptr ? "" : error;
  libpq().PQfreemem(error);
  if (!found) {
    // libpq's own words may quote the password.
    throw SettingsError(
        "is none of the form postgres://[user[:password]@]host[:port]/database[?option=value]");
  }
  Options options;
  for (const PQconninfoOption* one = found.get(); one->keyword != nullptr; ++one) {
    if (one->val == nullptr) continue;
    const std::string_view name = one->keyword;
    if (std::find(kAllowed.begin(), kAllowed.end(), name) == kAllowed.end()) {
      throw SettingsError(
          fmt::format("has the option {}, which the relay does not take; it takes {}", name,
                      fmt::join(kAllowed, ", ")));
    }
    options.emplace_back(name, one->val);
  }
  return options;
}

// Which of several servers will do: the relay asks each of them by itself.
void take_target(Options& options) {
  const std::string target = option(options, kTarget);
  if (!target.empty() && target != "read-write" && target != "primary") {
    throw SettingsError(fmt::format(
        "has {}={}: the relay writes, so only read-write (its default) will do", kTarget, target));
  }
  std::erase_if(options, [](const auto& one) { return one.first == kTarget; });
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == ',') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

std::vector<Host> hosts_of(const Options& options) {
  const std::vector<std::string> names = split(option(options, "host"));
  const std::vector<std::string> ports = split(option(options, "port"));
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& port = ports.size() == 1 ? ports[0] : i < ports.size() ? ports[i] : "";
    hosts.push_back(
        {names[i].empty() ? "localhost" : names[i], port.empty() ? kDefaultPort : port});
  }
  return hosts;
}

void require_ports(const std::vector<Host>& hosts) {
  for (const Host& host : hosts) {
    int number = 0;
    const char* const end = host.port.data() + host.port.size();
    const auto [rest, error] = std::from_chars(host.port.data(), end, number);
    if (error == std::errc{} && rest == end && number > 0 && number < 65536) continue;
    throw SettingsError(fmt::format("has the port {}: ports are 1 to 65535", host.port));
  }
}

bool is_local(const Host& host) {
  return host.name.starts_with('/') || host.name.starts_with('@') || host.name == "localhost" ||
         host.name.starts_with("127.") || host.name == "::1";
}

void add_tls(Location& location) {
  std::string mode = option(location.options, "sslmode");
  if (mode.empty()) {
    const bool local = std::all_of(location.hosts.begin(), location.hosts.end(), is_local);
    mode = local ? "prefer" : "verify-full";
    location.options.emplace_back("sslmode", mode);
  }
  if (std::find(kModes.begin(), kModes.end(), mode) == kModes.end()) {
    throw SettingsError(
        fmt::format("has sslmode={}, which is none of {}", mode, fmt::join(kModes, ", ")));
  }
  const bool verifies = mode.starts_with("verify-");
  if (verifies && option(location.options, "sslrootcert").empty()) {
    location.options.emplace_back("sslrootcert", kSystemAuthorities);
  }
}

}  // namespace

Location location_of(const StoreSettings& settings) {
  Options options = parsed(settings.url);
  take_target(options);
  Location location;
  location.hosts = hosts_of(options);
  require_ports(location.hosts);
  std::erase_if(options,
                [](const auto& one) { return one.first == "host" || one.first == "port"; });
  location.options = std::move(options);
  const std::string database = option(location.options, "dbname");
  if (database.empty()) throw SettingsError("names no database: postgres://host/database");
  location.password_file = settings.password_file;
  if (!location.password_file.empty() && !option(location.options, "password").empty()) {
    throw SettingsError("has a password beside store.passwordFile: remove one of them");
  }
  add_tls(location);
  std::vector<std::string> places;
  for (const Host& host : location.hosts) places.push_back(host.name + ":" + host.port);
  location.label = fmt::format("{}/{}", fmt::join(places, ","), database);
  return location;
}

std::string read_password(const std::string& path) {
  std::ifstream file(path);
  std::string password;
  password.resize(kPasswordBytesMax);
  file.read(password.data(), static_cast<std::streamsize>(password.size()));
  if (file.bad() || (!file && !file.eof())) {
    throw Unusable(fmt::format("cannot read the password file {} (store.passwordFile)", path));
  }
  password.resize(static_cast<std::size_t>(file.gcount()));
  password.resize(password.find_last_not_of("\r\n") + 1);
  if (password.empty() || password.find_first_of(std::string("\n\0", 2)) != std::string::npos) {
    throw Unusable(
        fmt::format("the password file {} (store.passwordFile) does not hold one line", path));
  }
  return password;
}

}  // namespace outbox::postgres
