#include "publishers/wire/secret_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "publishers/wire/fields.h"

namespace outbox {

namespace {

constexpr std::size_t kSecretMax = kHeaderValueMax / 2;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Secret read_secret_file(const std::string& path, std::size_t size_max) {
  Secret secret;
  // To open a pipe would wait for somebody to write to it, perhaps for ever.
  std::error_code ignored;
  if (std::filesystem::is_fifo(path, ignored)) {
    secret.error = fmt::format("{} is a pipe: name a file", path);
    return secret;
  }
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "re"));
  const int open_error = errno;
  if (!file) {
    secret.error = fmt::format("the file {} can't be read: {}", path,
                               std::system_category().message(open_error));
    return secret;
  }
  secret.text.resize(size_max + 1);
  secret.text.resize(std::fread(secret.text.data(), 1, secret.text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    secret.error = fmt::format("the file {} can't be read", path);
  } else if (secret.text.empty()) {
    secret.error = fmt::format("the file {} is empty", path);
  } else if (secret.text.size() > size_max) {
    secret.error = fmt::format("the file {} is longer than {} bytes", path, size_max);
  }
  return secret;
}

Secret read_secret(const std::string& path) {
  Secret secret = read_secret_file(path, kSecretMax + 2);
  if (!secret.error.empty()) return secret;
  if (secret.text.ends_with('\n')) secret.text.pop_back();
  if (secret.text.ends_with('\r')) secret.text.pop_back();
  if (secret.text.empty()) {
    secret.error = fmt::format("the file {} is empty", path);
  } else if (secret.text.size() > kSecretMax || !header_value_defect(secret.text).empty()) {
    secret.error =
        fmt::format("the file {} does not hold a secret: at most {} bytes of text on one line",
                    path, kSecretMax);
  }
  return secret;
}

}  // namespace outbox
