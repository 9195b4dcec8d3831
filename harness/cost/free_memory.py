"""How much main memory and how many cores are free, and how much memory this process holds."""

import os
import statistics
import time


def available_bytes() -> int | None:
    """The bytes of main memory that are available now.

    All of the memory where only that is known (not on Linux), None where nothing is.
    """
    try:
        with open("/proc/meminfo", encoding="ascii") as meminfo:
            for line in meminfo:
                if line.startswith("MemAvailable:"):  # "MemAvailable:   8118148 kB"
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: sysconf below knows the whole memory only
    names = os.sysconf_names
    if "SC_PHYS_PAGES" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def free_cores() -> int:
    """The number of cores on which no other process computes, at least 1.

    These are all cores less the threads that run beside this one, by the median of nine samples in
    50 ms; where that is unknown (not Linux), all cores that this process may use.
    """
    usable = _usable_cores()
    thread_counts = []
    try:
        for _ in range(9):
            thread_counts.append(_running_threads())
            time.sleep(0.006)
    except OSError:
        return usable  # not Linux
    threads_beside_this_one = int(statistics.median(thread_counts)) - 1
    idle_cores = (os.cpu_count() or usable) - threads_beside_this_one
    return max(1, min(usable, idle_cores))


def _usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _running_threads() -> int:
    """How many threads of all processes compute or wait for a core now, this one included.

    /proc/loadavg "0.20 0.18 0.12 3/80 11206" -> 3. Raises OSError where there is no such file.
    """
    with open("/proc/loadavg", encoding="ascii") as file:
        running_and_all = file.read().split()[3]
    return int(running_and_all.partition("/")[0])
