// A real server that a script of this folder runs.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace outbox::testing {

// Runs for as long as this lives. The script prints a first line, mostly the server's URL, takes
// orders as lines and answers each with one.
class ServerProcess {
 public:
  // Throws std::runtime_error if the server does not come up.
  explicit ServerProcess(const std::string& script);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& url() const { return words_.front(); }
  // The first line, word by word.
  const std::vector<std::string>& words() const { return words_; }
  // Throws std::runtime_error unless the answer is "ok".
  void order(const std::string& line);

 private:
  std::string read_line();

  pid_t process_ = -1;
  std::FILE* orders_ = nullptr;
  std::FILE* answers_ = nullptr;
  std::vector<std::string> words_;
};

}  // namespace outbox::testing
