#include "publishers/http/signing.h"

#include <doctest/doctest.h>

#include "publishers/wire/text.h"
#include "tests/temporary_file.h"

namespace outbox {

namespace {

// What the reference libraries of Standard Webhooks are tested with.
const std::string kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const std::string kPrivateKey = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
const std::string kPublicKey = "ZlN4eg7dSSqi0moX9hQUk3orrOouK3QVQSlJa248c/g=";
const std::string kId = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const std::string kBody = R"({"test": 2432232314})";
const std::string kSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const std::string kPrivateSignature =
    "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag==";
const WallTime kTime{std::chrono::seconds{1614265330}};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

SigningKeys keys_of(const std::string& text) {
  const TemporaryFile file(text);
  return read_signing_keys(file.path());
}

std::string secret_of(std::size_t size) { return "whsec_" + base64(std::string(size, 's')); }

std::string value_of(const std::vector<Header>& headers, const std::string& name) {
  for (const Header& header : headers) {
    if (header.name == name) return header.value;
  }
  return "(none)";
}

}  // namespace

TEST_CASE("signatures are those of the reference libraries") {
  CHECK(webhook_signature(keys_of(kSecret).keys, kId, kTime, kBody) == kSignature);
  CHECK(webhook_signature(keys_of(kPrivateKey).keys, kId, kTime, kBody) == kPrivateSignature);
}

TEST_CASE("each key of the file signs, in the file's order") {
  const SigningKeys two = keys_of(kPrivateKey + "\r\n\n  " + kSecret + "\t\n");
  CHECK(two.error == "");
  CHECK(webhook_signature(two.keys, kId, kTime, kBody) == kPrivateSignature + " " + kSignature);
  std::string most;
  for (std::size_t i = 0; i < kSigningKeysMax; ++i) most += secret_of(24 + i) + "\n";
  CHECK(keys_of(most).keys.size() == kSigningKeysMax);
  CHECK(contains(keys_of(most + kSecret).error, "at most 8 keys"));
}

TEST_CASE("id, time and body each change the signature") {
  const std::vector<SigningKey> keys = keys_of(kSecret).keys;
  CHECK(webhook_signature(keys, kId + "x", kTime, kBody) != kSignature);
  CHECK(webhook_signature(keys, kId, kTime + std::chrono::seconds{1}, kBody) != kSignature);
  CHECK(webhook_signature(keys, kId, kTime, kBody + " ") != kSignature);
  CHECK(webhook_signature(keys, kId, kTime, "") != kSignature);
}

TEST_CASE("a private key may carry its public key, if that is its own") {
  const std::string seed = *base64_decoded(kPrivateKey.substr(5));
  const SigningKeys wrong = keys_of("whsk_" + base64(seed + std::string(32, 'p')));
  CHECK(contains(wrong.error, "don't belong together"));
  const std::string public_key = *base64_decoded(kPublicKey);
  const SigningKeys pair = keys_of("whsk_" + base64(seed + public_key));
  CHECK(pair.error == "");
  CHECK(webhook_signature(pair.keys, kId, kTime, kBody) == kPrivateSignature);
}

TEST_CASE("a file that holds no keys says which line is to blame, and never what stands there") {
  struct Row {
    std::string text;
    std::string why;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", "is empty"},
           {"\n \n", "holds no key"},
           {"hidden", "line 1: a key begins with whsec_"},
           {kSecret + "\n\nhidden", "line 3: a key begins with whsec_"},
           {"whsec_hidden", "line 1: what follows the prefix is not base64"},
           {"whsec_aGlkZGVu aGlkZGVu", "not base64"},
           {kSecret + "=", "not base64"},
           {"whsec_", "has 0 bytes; it must have 24 to 64"},
           {secret_of(23), "has 23 bytes"},
           {secret_of(65), "has 65 bytes"},
           {"whsk_" + base64("hidden"), "has 6 bytes; it must have 32, or 64"},
           {"whpk_" + base64(std::string(32, 'h')), "is a public key"},
           {std::string(17 * 1024, 'h'), "longer than 16384 bytes"},
       }) {
    const SigningKeys read = keys_of(row.text);
    CAPTURE(read.error);
    CHECK(contains(read.error, row.why));
    CHECK(contains(read.error, "outbox-"));
    CHECK_FALSE(contains(read.error, "hidden"));
    CHECK(read.keys.empty());
  }
  CHECK(keys_of(secret_of(24)).error == "");
  CHECK(keys_of(secret_of(64)).error == "");
  CHECK(contains(read_signing_keys("/no/such/file").error, "/no/such/file can't be read: No such"));
}

TEST_CASE("an id that can't be signed is refused with the reason") {
  CHECK(webhook_id_defect("7d3c9a52-9f0f-4a37-9c5e-1f3a2b4c5d01") == "");
  CHECK(webhook_id_defect("with space and \"quotes\"") == "");
  CHECK(contains(webhook_id_defect("a.b"), "has a dot"));
  CHECK(contains(webhook_id_defect("."), "has a dot"));
  CHECK(contains(webhook_id_defect("\xC3\xBC"), "outside ASCII"));
}

TEST_CASE("without a key file nothing is signed") {
  Signer signer("");
  std::vector<Header> headers;
  CHECK(signer.sign(kId, kTime, kBody, headers) == "");
  CHECK(headers.empty());
}

TEST_CASE("a signer adds id, time and signature") {
  const TemporaryFile file(kSecret);
  Signer signer(file.path());
  std::vector<Header> headers;
  REQUIRE(signer.sign(kId, kTime, kBody, headers) == "");
  CHECK(headers.size() == 3);
  CHECK(value_of(headers, "webhook-id") == kId);
  CHECK(value_of(headers, "webhook-timestamp") == "1614265330");
  CHECK(value_of(headers, "webhook-signature") == kSignature);
}

TEST_CASE("a changed key file is in force for the next attempt, a broken one is passed over") {
  TemporaryFile file(kSecret);
  Signer signer(file.path());
  const auto signature = [&] {
    std::vector<Header> headers;
    REQUIRE(signer.sign(kId, kTime, kBody, headers) == "");
    return value_of(headers, "webhook-signature");
  };
  CHECK(signature() == kSignature);
  file.write(kSecret + "\n" + kPrivateKey);
  CHECK(signature() == kSignature + " " + kPrivateSignature);
  file.write("not a key");
  CHECK(signature() == kSignature + " " + kPrivateSignature);
  file.write(kPrivateKey);
  CHECK(signature() == kPrivateSignature);
  file.remove();
  CHECK(signature() == kPrivateSignature);
}

TEST_CASE("without a key that can be read nothing is signed, and the file is named") {
  TemporaryFile file("nothing useful");
  Signer signer(file.path());
  std::vector<Header> headers;
  const std::string error = signer.sign(kId, kTime, kBody, headers);
  CHECK(contains(error, "signingKeyFile: the file " + file.path()));
  CHECK(headers.empty());
  file.write(kSecret);
  CHECK(signer.sign(kId, kTime, kBody, headers) == "");
}

}  // namespace outbox
