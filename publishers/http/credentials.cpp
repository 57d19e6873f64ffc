#include "publishers/http/credentials.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "publishers/wire/fields.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kSecretMax = kHeaderValueMax / 2;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Secret read_secret(const std::string& path) {
  Secret secret;
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "re"));
  const int open_error = errno;
  if (!file) {
    secret.error = fmt::format("the file {} can't be read: {}", path,
                               std::system_category().message(open_error));
    return secret;
  }
  secret.text.resize(kSecretMax + 2);
  secret.text.resize(std::fread(secret.text.data(), 1, secret.text.size(), file.get()));
  if (std::ferror(file.get()) != 0) secret.error = fmt::format("the file {} can't be read", path);
  if (secret.text.ends_with('\n')) secret.text.pop_back();
  if (secret.text.ends_with('\r')) secret.text.pop_back();
  if (secret.error.empty() && secret.text.empty()) {
    secret.error = fmt::format("the file {} is empty", path);
  }
  if (secret.text.size() > kSecretMax || !header_value_defect(secret.text).empty()) {
    secret.error =
        fmt::format("the file {} does not hold a secret: at most {} bytes of text on one line",
                    path, kSecretMax);
  }
  return secret;
}

Credentials::Credentials(const PublisherSettings& settings)
    : username_(settings.username),
      password_file_(settings.password_file),
      bearer_token_file_(settings.bearer_token_file) {}

std::string Credentials::refresh() {
  const std::string& path = password_file_.empty() ? bearer_token_file_ : password_file_;
  if (path.empty()) return {};
  Secret secret = read_secret(path);
  if (!secret.error.empty())
    return authorization_.empty() ? std::move(secret.error) : std::string{};
  authorization_ = password_file_.empty() ? "Bearer " + secret.text
                                          : "Basic " + base64(username_ + ":" + secret.text);
  return {};
}

}  // namespace outbox
