// What the kernel knows about this process.
#pragma once

namespace outbox {

struct ProcessStats {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;
};

// Read from /proc/self; what can't be read is 0.
ProcessStats read_process_stats();

// When this process started, as Unix time; 0 if it can't be read. It does not change: ask once.
double read_process_start();

}  // namespace outbox
