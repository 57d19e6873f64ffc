"""What the machine does while something is measured on it."""

import os
import resource
import shutil
import time

MEMORY_FOLDER = "/dev/shm"
CPU_OF_PROCESS = 2  # the kernel's number for the scheduler's clock of a process
QUIET_LOAD = 1.5


def cpu_seconds(pid):
    """Processor time of a living process, in all its threads, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | CPU_OF_PROCESS)


def tree_cpu_seconds(root):
    """Processor time of a process and of all below it, also of those that have ended."""
    parents, used = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def belongs(pid):
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return sum(seconds for pid, seconds in used.items() if belongs(pid))


def free_memory():
    """For data in memory."""
    with open("/proc/meminfo", encoding="ascii") as file:
        amounts = dict(line.split(":") for line in file)
    return min(int(amounts["MemAvailable"].split()[0]) * 1024,
               shutil.disk_usage(MEMORY_FOLDER).free)


def cores():
    return len(os.sched_getaffinity(0))


def load():
    return os.getloadavg()[0]


def wait_until_quiet(seconds):
    """Whether the load fell to what a measurement needs within that time."""
    deadline = time.monotonic() + seconds
    while load() > QUIET_LOAD:
        if time.monotonic() >= deadline:
            return False
        time.sleep(2)
    return True


def description():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{cores()} cores ({models[0] if models else 'unknown'}), Linux {os.uname().release}"


def _all_busy_seconds():
    """Of all processors since the machine started: everything but idle and waiting for a disk."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_busy_seconds():
    """Of this process and its children that have ended."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in own)


class Neighbours:
    """How much of the machine others took while the block ran, 0 to 1.

    Children that were started inside the block must have ended inside it, but for those whose
    processor time `lasting` tells.
    """

    share = 0.0

    def __init__(self, lasting):
        self._lasting = lasting

    def _readings(self):
        return time.monotonic(), _all_busy_seconds(), _own_busy_seconds() + self._lasting()

    def __enter__(self):
        self._started = self._readings()
        return self

    def __exit__(self, *error):
        elapsed, busy, own = (now - then for now, then in zip(self._readings(), self._started))
        self.share = max(0.0, (busy - own) / (elapsed * cores()))
