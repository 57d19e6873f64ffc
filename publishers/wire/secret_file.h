// Secrets in files.
#pragma once

#include <cstddef>
#include <string>

namespace outbox {

// A secret as its file holds it.
struct Secret {
  std::string text;
  std::string error;  // names the file and the reason, never the content
};

// A whole file of at most `size_max` bytes.
Secret read_secret_file(const std::string& path, std::size_t size_max);

// A secret on one line, fit for a header, without the newline at its end.
Secret read_secret(const std::string& path);

}  // namespace outbox
