// Suggestions, variables in values, and text from outside made safe to show.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "relay/app/config_expand.h"
#include "relay/app/printable.h"
#include "relay/app/suggest.h"

namespace outbox {
namespace {

const std::vector<std::string> kKeys = {"batchSize", "leaseTerm", "pollInterval", "url"};

TEST_CASE("the nearest key is suggested, and none when all are far") {
  CHECK(nearest("batchsize", kKeys) == "batchSize");
  CHECK(nearest("lease_term", kKeys) == "leaseTerm");
  CHECK(nearest("laeseTerm", kKeys) == "leaseTerm");
  CHECK(nearest("pollInterva", kKeys) == "pollInterval");
  CHECK(nearest("urll", kKeys) == "url");
  CHECK(nearest("ordering", kKeys).empty());
  CHECK(nearest("", kKeys).empty());
  CHECK(nearest(std::string(100'000, 'a'), kKeys).empty());
  CHECK(did_you_mean("urk", kKeys) == "; did you mean \"url\"?");
}

TEST_CASE("edits are counted one by one, a swap of neighbours as one") {
  CHECK(edit_distance("lease", "lease") == 0);
  CHECK(edit_distance("lease", "leas") == 1);
  CHECK(edit_distance("lease", "leese") == 1);
  CHECK(edit_distance("lease", "laese") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

const Environment kEnvironment = {
    {"HOST", "db"}, {"EMPTY", ""}, {"DOLLAR", "${HOST}"}, {"LINES", "a\nb"}};

std::string expanded(const char* text) { return expand(text, kEnvironment).value; }

TEST_CASE("variables are replaced, with a default where they are not set") {
  CHECK(expanded("${HOST}") == "db");
  CHECK(expanded("a${HOST}b${HOST}") == "adbbdb");
  CHECK(expanded("${NONE:-other}") == "other");
  CHECK(expanded("${EMPTY:-other}") == "other");
  CHECK(expanded("${HOST:-other}") == "db");
  CHECK(expanded("${NONE:-}") == "");
  CHECK(expand("${NONE:-}", kEnvironment).ok());
  CHECK(expanded("${HOST:?needed}") == "db");
  CHECK(expanded("[${EMPTY}]") == "[]");
}

TEST_CASE("a dollar stands for itself when doubled or alone, and values are not expanded again") {
  CHECK(expanded("$$") == "$");
  CHECK(expanded("$${HOST}") == "${HOST}");
  CHECK(expanded("a$b$") == "a$b$");
  CHECK(expanded("$HOST") == "$HOST");
  CHECK(expanded("${DOLLAR}") == "${HOST}");
}

TEST_CASE("a variable that is missing, misspelt or holds a line break is an error that names it") {
  CHECK(expand("${NONE}", kEnvironment).error.find("NONE is not set") != std::string::npos);
  CHECK(expand("${EMPTY:?name it}", kEnvironment).error.find("name it") != std::string::npos);
  CHECK(expand("${LINES}", kEnvironment).error.find("line break") != std::string::npos);
  for (const char* text : {"${", "${HOST", "${}", "${1A}", "${A B}", "${A:x}", "${A:}", "${A-b}"}) {
    CAPTURE(text);
    CHECK_FALSE(expand(text, kEnvironment).ok());
  }
}

TEST_CASE("control, bidirectional and invisible characters are shown as escapes") {
  CHECK(printable("plain text, umlaut \u00e4, emoji \U0001F600") ==
        "plain text, umlaut \u00e4, emoji \U0001F600");
  CHECK(printable("a\nb\r\t") == "a\\nb\\r\\t");
  CHECK(printable("\x1b[31mred\x7f") == "\\u001b[31mred\\u007f");
  CHECK(printable(std::string("a\0b", 3)) == "a\\u0000b");
  CHECK(printable("\u009b1m") == "\\u009b1m");
  CHECK(printable("user\u202e txt.exe") == "user\\u202e txt.exe");
  CHECK(printable("\u2066\u2069\u200f\u061c") == "\\u2066\\u2069\\u200f\\u061c");
  CHECK(printable("\u2028\ufeff\u200b") == "\\u2028\\ufeff\\u200b");
  CHECK(printable("\U000E0041") == "\\udb40\\udc41");
  CHECK(printable("\"\\") == "\\\"\\\\");
}

TEST_CASE("a sentence keeps its quotes and nothing else of what is unsafe") {
  CHECK(printable_sentence("no \"a\nb\" \x1b here") == "no \"a\\nb\" \\u001b here");
}

TEST_CASE("bytes that are not UTF-8 are replaced one by one") {
  CHECK(printable("a\xff"
                  "b") == "a\\ufffdb");
  CHECK(printable("\xc3") == "\\ufffd");                        // cut short
  CHECK(printable("\xc0\xaf") == "\\ufffd\\ufffd");             // overlong
  CHECK(printable("\xe0\x80\xaf") == "\\ufffd\\ufffd\\ufffd");  // overlong
  CHECK(printable("\xed\xa0\x80") == "\\ufffd\\ufffd\\ufffd");  // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\ufffd\\ufffd\\ufffd\\ufffd");
  CHECK(printable("\xc3(") == "\\ufffd(");
}

TEST_CASE("a long text is cut between characters") {
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("ab\u00e4", 3) == "ab...");
  CHECK(printable("ab\n", 3) == "ab...");
  CHECK(printable("abc", 3) == "abc");
}

TEST_CASE("a URL is shown without its password and what its query calls a secret") {
  CHECK(redacted_url("https://u:p@h/x") == "https://u:***@h/x");
  CHECK(redacted_url("https://u:p@q@h/x") == "https://u:***@h/x");
  CHECK(redacted_url("amqp://u:p/w@h") == "amqp://u:***@h");
  CHECK(redacted_url("https://h/x?a=1&access_token=t&Password=p") ==
        "https://h/x?a=1&access_token=***&Password=***");
  CHECK(redacted_url("https://user@h:80/x") == "https://user@h:80/x");
  CHECK(redacted_url("sqlite:///data/app.db") == "sqlite:///data/app.db");
}

TEST_CASE("a password in a URL is found, and an address in its path is none") {
  CHECK(has_password("https://u:p@h/x"));
  CHECK(has_password("https://:p@h"));
  CHECK(has_password("amqp://u:p/w@h"));
  CHECK_FALSE(has_password("https://u@h/x"));
  CHECK_FALSE(has_password("https://h:80/mail/a@b"));
  CHECK_FALSE(has_password("https://[::1]/mail/a:b@c"));
  CHECK_FALSE(has_password("null:"));
}

}  // namespace
}  // namespace outbox
