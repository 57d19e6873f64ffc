#include "publishers/http/signing.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "publishers/wire/secret_file.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kKeyFileMax = 16 * 1024;
constexpr std::size_t kHmacKeyMin = 24;
constexpr std::size_t kHmacKeyMax = 64;
constexpr std::size_t kSeedSize = 32;
constexpr std::string_view kHmacPrefix = "whsec_";
constexpr std::string_view kPrivatePrefix = "whsk_";
constexpr std::string_view kPublicPrefix = "whpk_";

struct Deleter {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
template <class Type>
using Owned = std::unique_ptr<Type, Deleter>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Owned<EVP_PKEY> private_key_of(std::string_view seed) {
  return Owned<EVP_PKEY>(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(seed), seed.size()));
}

// Whether the second half is the public key of the first.
bool is_key_pair(std::string_view bytes) {
  const Owned<EVP_PKEY> key = private_key_of(bytes.substr(0, kSeedSize));
  std::array<unsigned char, kSeedSize> made{};
  std::size_t size = made.size();
  return key && EVP_PKEY_get_raw_public_key(key.get(), made.data(), &size) == 1 &&
         std::equal(made.begin(), made.end(), bytes_of(bytes.substr(kSeedSize)));
}

std::string add_hmac_key(std::string bytes, std::vector<SigningKey>& keys) {
  if (bytes.size() < kHmacKeyMin || bytes.size() > kHmacKeyMax) {
    return fmt::format("the secret has {} bytes; it must have {} to {}", bytes.size(), kHmacKeyMin,
                       kHmacKeyMax);
  }
  keys.push_back({SigningKey::Kind::hmac_sha256, std::move(bytes)});
  return {};
}

std::string add_private_key(std::string bytes, std::vector<SigningKey>& keys) {
  if (bytes.size() == 2 * kSeedSize) {
    if (!is_key_pair(bytes))
      return "the private key and the public key in it don't belong together";
    bytes.resize(kSeedSize);
  }
  if (bytes.size() != kSeedSize) {
    return fmt::format("the private key has {} bytes; it must have {}, or {} with its public key",
                       bytes.size(), kSeedSize, 2 * kSeedSize);
  }
  keys.push_back({SigningKey::Kind::ed25519, std::move(bytes)});
  return {};
}

// Adds the key that stands on a line; why there is none, as a clause.
std::string add_key(std::string_view line, std::vector<SigningKey>& keys) {
  if (line.starts_with(kPublicPrefix)) {
    return "this is a public key, which is for receivers; the relay needs the private one "
           "(whsk_...)";
  }
  const bool hmac = line.starts_with(kHmacPrefix);
  if (!hmac && !line.starts_with(kPrivatePrefix)) {
    return "a key begins with whsec_ (a shared secret) or whsk_ (an ed25519 private key)";
  }
  line.remove_prefix(hmac ? kHmacPrefix.size() : kPrivatePrefix.size());
  std::optional<std::string> bytes = base64_decoded(line);
  if (!bytes) return "what follows the prefix is not base64";
  if (keys.size() == kSigningKeysMax) {
    return fmt::format("a file holds at most {} keys", kSigningKeysMax);
  }
  return hmac ? add_hmac_key(std::move(*bytes), keys) : add_private_key(std::move(*bytes), keys);
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

std::string hmac_sha256(std::string_view key, std::string_view head, std::string_view body) {
  const Owned<EVP_MAC> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  const Owned<EVP_MAC_CTX> context(mac ? EVP_MAC_CTX_new(mac.get()) : nullptr);
  if (!context) return {};
  std::string digest = "SHA256";
  const std::array<OSSL_PARAM, 2> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_end()};
  std::array<unsigned char, EVP_MAX_MD_SIZE> made{};
  std::size_t size = 0;
  const bool done =
      EVP_MAC_init(context.get(), bytes_of(key), key.size(), parameters.data()) == 1 &&
      EVP_MAC_update(context.get(), bytes_of(head), head.size()) == 1 &&
      EVP_MAC_update(context.get(), bytes_of(body), body.size()) == 1 &&
      EVP_MAC_final(context.get(), made.data(), &size, made.size()) == 1;
  return done ? std::string(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(size))
              : std::string{};
}

std::string ed25519(std::string_view seed, std::string_view head, std::string_view body) {
  const Owned<EVP_PKEY> key = private_key_of(seed);
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  // In one piece, because this algorithm reads it twice.
  std::string text(head);
  text += body;
  std::array<unsigned char, 2 * kSeedSize> made{};
  std::size_t size = made.size();
  const bool done =
      key && context &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestSign(context.get(), made.data(), &size, bytes_of(text), text.size()) == 1;
  return done ? std::string(made.begin(), made.end()) : std::string{};
}

}  // namespace

SigningKeys read_signing_keys(const std::string& path) {
  const Secret file = read_secret_file(path, kKeyFileMax);
  SigningKeys read;
  read.error = file.error;
  std::string_view rest = file.text;
  for (int number = 1; read.error.empty() && !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const std::string why = add_key(line, read.keys);
    if (!why.empty()) read.error = fmt::format("the file {}, line {}: {}", path, number, why);
  }
  if (read.error.empty() && read.keys.empty()) {
    read.error = fmt::format("the file {} holds no key", path);
  }
  if (!read.error.empty()) read.keys.clear();
  return read;
}

std::string webhook_signature(const std::vector<SigningKey>& keys, std::string_view id,
                              WallTime now, std::string_view body) {
  const std::string head = fmt::format("{}.{}.", id, now.time_since_epoch().count());
  std::string value;
  for (const SigningKey& key : keys) {
    const bool hmac = key.kind == SigningKey::Kind::hmac_sha256;
    const std::string signature =
        hmac ? hmac_sha256(key.bytes, head, body) : ed25519(key.bytes, head, body);
    if (signature.empty()) {
      ERR_clear_error();
      return {};
    }
    if (!value.empty()) value += ' ';
    value += (hmac ? "v1," : "v1a,") + base64(signature);
  }
  return value;
}

std::string webhook_id_defect(std::string_view id) {
  if (id.find('.') != std::string_view::npos) {
    return "the id has a dot, which the id of a signed webhook must not have: it ends the id in "
           "what is signed";
  }
  const auto is_ascii = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::ranges::all_of(id, is_ascii)) {
    return "the id has characters outside ASCII, with which receivers could not check the "
           "signature";
  }
  return {};
}

Signer::Signer(std::string key_file) : key_file_(std::move(key_file)), files_({key_file_}) {
  if (!key_file_.empty()) current_keys();
}

SigningKeys Signer::current_keys() {
  const std::lock_guard lock(mutex_);
  SigningKeys current;
  if (files_.changed()) {
    current = read_signing_keys(key_file_);
    if (current.error.empty()) {
      files_.accept();
      keys_ = current.keys;
    }
  }
  // Without any yet, the reason why stands in the answer.
  if (!keys_.empty()) current = {keys_, {}};
  return current;
}

std::string Signer::sign(std::string_view id, WallTime now, std::string_view body,
                         std::vector<Header>& headers) {
  if (key_file_.empty()) return {};
  const SigningKeys current = current_keys();
  if (!current.error.empty()) return "signingKeyFile: " + current.error;
  std::string signature = webhook_signature(current.keys, id, now, body);
  if (signature.empty()) return "OpenSSL can't make the webhook's signature";
  headers.push_back({"webhook-id", std::string(id)});
  headers.push_back({"webhook-timestamp", std::to_string(now.time_since_epoch().count())});
  headers.push_back({"webhook-signature", std::move(signature)});
  return {};
}

}  // namespace outbox
