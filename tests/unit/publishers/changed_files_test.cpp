#include "publishers/wire/changed_files.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/temporary_file.h"

namespace outbox {

namespace {

// Waits until the files are old enough to be believed unchanged.
bool settles(ChangedFiles& files) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (std::chrono::steady_clock::now() < deadline) {
    if (!files.changed()) return true;
    files.accept();
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

}  // namespace

TEST_CASE("files have changed until they were accepted") {
  ChangedFiles none({"", ""});
  CHECK(none.changed());
  CHECK(none.changed());
  none.accept();
  CHECK_FALSE(none.changed());
  ChangedFiles missing({"/no/such/file"});
  CHECK(missing.changed());
  missing.accept();
  CHECK_FALSE(missing.changed());
}

TEST_CASE("a write, a replacement and a removal are changes; a second within one tick is, too") {
  TemporaryFile file("one");
  ChangedFiles files({file.path()});
  CHECK(files.changed());
  files.accept();
  file.write("two");
  CHECK(files.changed());
  REQUIRE(settles(files));
  file.write("six");
  CHECK(files.changed());
  REQUIRE(settles(files));
  TemporaryFile other("ten");
  std::filesystem::rename(other.path(), file.path());
  CHECK(files.changed());
  REQUIRE(settles(files));
  file.remove();
  CHECK(files.changed());
}

TEST_CASE("a link that points elsewhere is a change, as when a mounted secret is renewed") {
  TemporaryFile old_file("one");
  TemporaryFile new_file("two");
  const std::string link = old_file.path() + ".link";
  std::filesystem::create_symlink(old_file.path(), link);
  ChangedFiles files({link});
  REQUIRE(settles(files));
  std::filesystem::create_symlink(new_file.path(), link + ".new");
  std::filesystem::rename(link + ".new", link);
  CHECK(files.changed());
}

}  // namespace outbox
