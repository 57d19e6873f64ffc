#include "publishers/http/credentials.h"

#include <utility>

#include "publishers/wire/secret_file.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

std::vector<std::string> files_of(const PublisherSettings& settings) {
  std::vector<std::string> files = {settings.password_file, settings.bearer_token_file};
  for (const auto& [name, file] : settings.header_files) files.push_back(file);
  return files;
}

}  // namespace

Credentials::Credentials(const PublisherSettings& settings)
    : username_(settings.username),
      password_file_(settings.password_file),
      bearer_token_file_(settings.bearer_token_file),
      header_files_(settings.header_files),
      files_(files_of(settings)) {
  current(false);
}

Credentials::Current Credentials::current(bool rejected) {
  const bool any = !password_file_.empty() || !bearer_token_file_.empty() || !header_files_.empty();
  if (!any) return {};
  const std::lock_guard lock(mutex_);
  if (files_.changed() || rejected) {
    std::vector<Header> fresh;
    std::string error = read(fresh);
    if (error.empty()) {
      files_.accept();
      headers_ = std::move(fresh);
    } else if (headers_.empty()) {
      return {{}, std::move(error)};
    }
  }
  return {headers_, {}};
}

// An error if one of the files can't be used: then none is.
std::string Credentials::read(std::vector<Header>& headers) const {
  const std::string& path = password_file_.empty() ? bearer_token_file_ : password_file_;
  if (!path.empty()) {
    Secret secret = read_secret(path);
    if (!secret.error.empty()) return std::move(secret.error);
    headers.push_back({"Authorization", password_file_.empty()
                                            ? "Bearer " + secret.text
                                            : "Basic " + base64(username_ + ":" + secret.text)});
  }
  for (const auto& [name, file] : header_files_) {
    Secret secret = read_secret(file);
    if (!secret.error.empty()) return std::move(secret.error);
    headers.push_back({name, std::move(secret.text)});
  }
  return {};
}

}  // namespace outbox
