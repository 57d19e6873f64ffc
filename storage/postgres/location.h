// Where a PostgreSQL database is, and how it is spoken to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "relay/backends.h"

namespace outbox::postgres {

// One server that may be the one.
struct Host {
  std::string name;  // a host's name or address, or the folder of a socket
  std::string port;
};

struct Location {
  std::vector<Host> hosts;                                   // tried one after the other
  std::vector<std::pair<std::string, std::string>> options;  // libpq's keywords, without the hosts
  std::string password_file;                                 // empty: libpq's own ways
  std::string label;  // for messages: hosts, ports and database, no secret
};

// postgres[ql]://[user[:password]@]host[:port][,host[:port]...]/database[?option=value&...], as
// libpq takes it, with the options sslmode, sslrootcert, sslcert, sslkey, sslcrl, passfile, host,
// port, user, dbname, channel_binding, gssencmode, and target_session_attrs, which may only say
// what the relay wants anyway. Throws SettingsError.
//
// Without sslmode, a server that is not on this machine is spoken to with TLS only, and its
// certificate is verified (verify-full, by default with the system's authorities).
Location location_of(const StoreSettings& settings);

// The password as its file holds it now. Throws Unusable.
std::string read_password(const std::string& path);

}  // namespace outbox::postgres
