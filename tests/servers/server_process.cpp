#include "tests/servers/server_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <stdexcept>

namespace outbox::testing {

ServerProcess::ServerProcess(const std::string& script) {
  std::array<int, 2> input{};
  std::array<int, 2> output{};
  if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe for a test server");
  }
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(input[0], STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    ::execl("/usr/bin/python3", "python3", script.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(input[0]);
  ::close(output[1]);
  orders_ = ::fdopen(input[1], "w");
  answers_ = ::fdopen(output[0], "r");
  const std::string first = read_line();
  if (first.find("://") == std::string::npos) {
    throw std::runtime_error(script + " did not come up: " + first);
  }
  std::istringstream line(first);
  for (std::string word; line >> word;) words_.push_back(word);
}

// The end of its input ends the script, and the script its server.
ServerProcess::~ServerProcess() {
  std::fclose(orders_);
  std::fclose(answers_);
  ::waitpid(process_, nullptr, 0);
}

void ServerProcess::order(const std::string& line) {
  std::fputs((line + "\n").c_str(), orders_);
  std::fflush(orders_);
  const std::string answer = read_line();
  if (answer != "ok") throw std::runtime_error(line + ": " + answer);
}

std::string ServerProcess::read_line() {
  std::string line;
  for (int letter = std::fgetc(answers_); letter != EOF && letter != '\n';
       letter = std::fgetc(answers_)) {
    line += static_cast<char>(letter);
  }
  return line;
}

}  // namespace outbox::testing
