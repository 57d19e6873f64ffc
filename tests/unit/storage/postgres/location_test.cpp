// URLs of PostgreSQL servers, and names of tables.
#include "storage/postgres/location.h"

#include <doctest/doctest.h>

#include <fstream>

#include "storage/postgres/dialect.h"
#include "tests/temporary_folder.h"

namespace outbox::postgres {
namespace {

StoreSettings at(const std::string& url) {
  StoreSettings settings;
  settings.url = url;
  return settings;
}

std::string option_of(const std::string& url, const std::string& name) {
  for (const auto& [key, value] : location_of(at(url)).options) {
    if (key == name) return value;
  }
  return {};
}

TEST_CASE("a URL names servers, a user and a database") {
  const Location location = location_of(at("postgres://relay@db1.example:5433,db2.example/shop"));
  REQUIRE(location.hosts.size() == 2);
  CHECK(location.hosts[0].name == "db1.example");
  CHECK(location.hosts[0].port == "5433");
  CHECK(location.hosts[1].name == "db2.example");
  CHECK(location.hosts[1].port == "5432");
  CHECK(location.label == "db1.example:5433,db2.example:5432/shop");
  CHECK(option_of("postgresql://relay@localhost/shop", "user") == "relay");
}

TEST_CASE("a server elsewhere is spoken to with TLS, and its certificate is verified") {
  CHECK(option_of("postgres://db.example/shop", "sslmode") == "verify-full");
  CHECK(option_of("postgres://db.example/shop", "sslrootcert").ends_with("ca-certificates.crt"));
  CHECK(option_of("postgres://127.0.0.1,db.example/shop", "sslmode") == "verify-full");
  CHECK(option_of("postgres://db.example/shop?sslmode=require", "sslmode") == "require");
  CHECK(option_of("postgres://db.example/shop?sslrootcert=/ca.pem", "sslrootcert") == "/ca.pem");
}

TEST_CASE("of several servers the one that can be written to is what a relay wants anyway") {
  const std::string url = "postgres://db1.example,db2.example/shop?target_session_attrs=";
  CHECK(location_of(at(url + "read-write")).hosts.size() == 2);
  CHECK(option_of(url + "primary", "target_session_attrs").empty());
  CHECK_THROWS_WITH_AS(location_of(at(url + "standby")), doctest::Contains("read-write"),
                       SettingsError);
}

TEST_CASE("on this machine TLS is a matter of choice") {
  for (const char* url : {"postgres://localhost/shop", "postgres://127.0.0.1/shop",
                          "postgres:///shop?host=/var/run/postgresql", "postgres://[::1]/shop"}) {
    CAPTURE(url);
    CHECK(option_of(url, "sslmode") == "prefer");
  }
}

TEST_CASE("what is no such URL is refused without showing a password") {
  for (const char* url :
       {"postgres://relay:secret@host:no-port/shop?x", "postgres://host/shop?no_such=secret",
        "postgres://relay:secret@host/", "postgres://host/shop?options=-csecret"}) {
    CAPTURE(url);
    try {
      location_of(at(url));
      FAIL("accepted");
    } catch (const SettingsError& error) {
      CHECK(std::string(error.what()).find("secret") == std::string::npos);
    }
  }
}

TEST_CASE("a port or a mode that there can't be is told without a server") {
  for (const char* url : {"postgres://host:0/shop", "postgres://host:70000/shop",
                          "postgres://host,other:5432x/shop", "postgres://host/shop?port=-1"}) {
    CHECK_THROWS_WITH_AS(location_of(at(url)), doctest::Contains("1 to 65535"), SettingsError);
  }
  CHECK(location_of(at("postgres://one:65535,two/shop")).hosts.size() == 2);
  CHECK_THROWS_WITH_AS(location_of(at("postgres://host/shop?sslmode=bogus")),
                       doctest::Contains("verify-full"), SettingsError);
}

TEST_CASE("a password comes from a file or not at all twice") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("password");
  StoreSettings settings = at("postgres://relay:one@localhost/shop");
  settings.password_file = path;
  CHECK_THROWS_AS(location_of(settings), SettingsError);
  CHECK_THROWS_AS(read_password(path), Unusable);
  std::ofstream(path) << "two\n";
  CHECK(read_password(path) == "two");
  std::ofstream(path) << "two\nlines\n";
  CHECK_THROWS_AS(read_password(path), Unusable);
  std::ofstream(path) << "\n";
  CHECK_THROWS_AS(read_password(path), Unusable);
}

TEST_CASE("a table's name may name its schema, and either may have dots and quotes") {
  CHECK(table_name("orders").table == "orders");
  CHECK(table_name("orders").schema.empty());
  CHECK(table_name("sales.orders").schema == "sales");
  CHECK(table_name("sales.\"v2.orders\"").table == "v2.orders");
  CHECK(table_name(R"("my ""own""".t)").schema == R"(my "own")");
  for (const char* name : {"a.b.c", "\"open", ".t"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(table_name(name), SettingsError);
  }
}

}  // namespace
}  // namespace outbox::postgres
