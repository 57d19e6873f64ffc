// Signatures as Standard Webhooks 1.0 defines them: webhook-id, webhook-timestamp and
// webhook-signature, over "{id}.{timestamp}.{body}".
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "publishers/http/judgement.h"
#include "publishers/wire/changed_files.h"
#include "relay/message.h"

namespace outbox {

inline constexpr std::size_t kSigningKeysMax = 8;

struct SigningKey {
  enum class Kind {
    hmac_sha256,  // whsec_ and 24 to 64 bytes in base64; signs as v1
    ed25519,      // whsk_ and 32 bytes (a seed) or 64 (with its public key); signs as v1a
  };
  Kind kind = Kind::hmac_sha256;
  std::string bytes;
};

struct SigningKeys {
  std::vector<SigningKey> keys;
  std::string error;  // names the file, the line and the reason, never the content
};

// One key on each line; empty lines are passed over.
SigningKeys read_signing_keys(const std::string& path);

// The value of webhook-signature: one signature by each key, in the keys' order; empty if OpenSSL
// refuses.
std::string webhook_signature(const std::vector<SigningKey>& keys, std::string_view id,
                              WallTime now, std::string_view body);

// Why a row with this id can't be signed; empty if it can.
std::string webhook_id_defect(std::string_view id);

// Signs with all keys of a file, so that receivers may hold the old one or the new one while keys
// are changed. The file is read anew when it has changed; keys that can't be read leave those that
// were read before in use. Safe from any thread.
class Signer {
 public:
  // Reads the file; without one nothing is signed.
  explicit Signer(std::string key_file);

  // Adds the three headers for an attempt that begins now; an error if there is no key.
  std::string sign(std::string_view id, WallTime now, std::string_view body,
                   std::vector<Header>& headers);

 private:
  SigningKeys current_keys();

  const std::string key_file_;
  std::mutex mutex_;
  ChangedFiles files_;            // guarded by mutex_
  std::vector<SigningKey> keys_;  // guarded
};

}  // namespace outbox
