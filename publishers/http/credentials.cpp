#include "publishers/http/credentials.h"

#include <utility>

#include "publishers/http/secret_file.h"
#include "publishers/wire/text.h"

namespace outbox {

Credentials::Credentials(const PublisherSettings& settings)
    : username_(settings.username),
      password_file_(settings.password_file),
      bearer_token_file_(settings.bearer_token_file),
      files_({settings.password_file, settings.bearer_token_file}) {}

std::string Credentials::refresh(bool rejected) {
  const std::string& path = password_file_.empty() ? bearer_token_file_ : password_file_;
  if (path.empty() || (!files_.changed() && !rejected)) return {};
  Secret secret = read_secret(path);
  if (!secret.error.empty())
    return authorization_.empty() ? std::move(secret.error) : std::string{};
  files_.accept();
  authorization_ = password_file_.empty() ? "Bearer " + secret.text
                                          : "Basic " + base64(username_ + ":" + secret.text);
  return {};
}

}  // namespace outbox
