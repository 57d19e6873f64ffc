#include "storage/sqlite/lock_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "storage/sqlite/settler.h"
#include "tests/temporary_folder.h"

namespace outbox::sqlite {
namespace {

// With a database file in it.
struct Folder {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path();
  const std::string database = folder.write("app.db", "");
};

TEST_CASE("a held lock is seen to be held, and is no proof of death") {
  const Folder folder;
  const LockFile lock(folder.database);
  REQUIRE(lock.held());
  const std::string path = (folder.path / lock.name()).string();
  CHECK(is_visibly_held(path, lock.identity()));
  CHECK_FALSE(DeadLock::obtain(path, lock.identity()).has_value());
}

TEST_CASE("a lock that was let go is proof of death, for this file only") {
  const Folder folder;
  std::string path;
  FileIdentity identity;
  {
    const LockFile lock(folder.database);
    path = (folder.path / lock.name()).string();
    identity = lock.identity();
  }
  CHECK_FALSE(is_visibly_held(path, identity));
  FileIdentity other = identity;
  ++other.inode;
  CHECK_FALSE(DeadLock::obtain(path, other).has_value());
  auto dead = DeadLock::obtain(path, identity);
  REQUIRE(dead.has_value());
  dead->remove_file();
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(DeadLock::obtain(path, identity).has_value());
}

TEST_CASE("a link in the lock file's place is not followed") {
  const Folder folder;
  const std::string target = (folder.path / "target").string();
  std::ofstream(target) << "";
  const std::string link = (folder.path / "link").string();
  std::filesystem::create_symlink(target, link);
  CHECK_FALSE(DeadLock::obtain(link, *identity_of(target)).has_value());
}

TEST_CASE("whoever may write to the database may test the lock") {
  const Folder folder;
  REQUIRE(::chmod(folder.database.c_str(), 0660) == 0);
  const mode_t before = ::umask(0077);
  const LockFile lock(folder.database);
  ::umask(before);
  struct stat info {};
  REQUIRE(::stat((folder.path / lock.name()).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0660);
}

TEST_CASE("a folder that can't be written gives no sign of life, and no error") {
  const LockFile lock("/nowhere/app.db");
  CHECK_FALSE(lock.held());
}

TEST_CASE("a removed lock file leaves nothing") {
  const Folder folder;
  LockFile lock(folder.database);
  lock.remove();
  CHECK_FALSE(std::filesystem::exists(folder.path / lock.name()));
}

TEST_CASE("a row's handle names its key and its event, and nothing else is one") {
  const auto handle = parse_row_id(to_row_id(42, 42, fingerprint_of_id("event-1")));
  REQUIRE(handle);
  CHECK(handle->key == Value(42));
  CHECK(handle->place == 42);
  CHECK(handle->fingerprint == fingerprint_of_id("event-1"));
  CHECK(handle->fingerprint != fingerprint_of_id("event-2"));
  CHECK(to_row_id(42, 42, fingerprint_of_id("event-1")).find("-i") == std::string::npos);
  for (const Value& key : {Value(-1), Value(INT64_MIN), Value("text-with - and \"quotes\""),
                           Value(""), Value(Blob{std::string("\0\xff", 2)}), Value(Blob{})}) {
    const auto other = parse_row_id(to_row_id(key, 7, fingerprint_of_id("")));
    REQUIRE(other);
    CHECK(other->key == key);
    CHECK(other->place == 7);
  }
  for (const char* text : {"", "42", "42-", "42-xyz", " 42-1", "4x-1", "42-1 ", "42-123456789",
                           "99999999999999999999-1", "42-1-", "42-1-i", "42-1-i7x", "42-1-z7"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_row_id(text).has_value());
  }
}

TEST_CASE("a long text is cut between two characters") {
  CHECK(shortened("short") == "short");
  CHECK(shortened(std::string(2000, 'x')).size() == 1024);
  CHECK(shortened(std::string(1023, 'x') + "\xe2\x82\xac") == std::string(1023, 'x'));
  CHECK(shortened(std::string(3000, '\x80')).empty());
}

}  // namespace
}  // namespace outbox::sqlite
