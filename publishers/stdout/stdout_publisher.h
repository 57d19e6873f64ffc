// Writes events as JSON lines to a file descriptor: the standard output, in a program.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <thread>

#include "publishers/wire/publication_queue.h"
#include "relay/backends.h"
#include "relay/publisher.h"

namespace outbox {

// submit() only queues; one thread writes. A reader that does not read ends an attempt at the
// publish time-out as a transport failure; what is missing of a line that was begun is written
// before the next one, so that every line is whole. The descriptor stays open and is not made
// non-blocking: its flags are shared with whoever else has it. The clock and the sink outlive the
// publisher.
class StdoutPublisher final : public Publisher {
 public:
  StdoutPublisher(int descriptor, const PublisherSettings& settings, const Clock& clock,
                  ReceiptSink& sink);
  ~StdoutPublisher() override;
  StdoutPublisher(const StdoutPublisher&) = delete;
  StdoutPublisher& operator=(const StdoutPublisher&) = delete;

  std::size_t submit(std::span<const Publication> publications) override;
  void recall() override { queue_.recall(); }

 private:
  struct Written {
    std::size_t bytes = 0;
    std::string error;  // empty: all of it
  };

  void work();
  Receipt publish(const Publication& publication);
  bool wait_for_reader(Time deadline) const;
  Written write_all(std::string_view bytes, Time deadline);
  std::string finish_broken_line(Time deadline);

  const int descriptor_;
  const bool regular_file_;
  const Duration publish_timeout_;
  const Clock& clock_;

  std::string broken_line_;  // the writer's thread only: what is missing of the line last begun

  PublicationQueue queue_;

  std::thread thread_;  // last: it uses everything above
};

// Registers the scheme `stdout`.
void add_stdout_publisher(Backends& backends);

}  // namespace outbox
