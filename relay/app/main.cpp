#include "relay/app/command_line.h"
#include "relay/backends.h"

int main(int argc, char** argv) {
  outbox::Backends backends;
  outbox::add_built_in_backends(backends);
  return outbox::run_command_line(argc, argv, backends);
}
