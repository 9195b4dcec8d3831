"""How much main memory and how many cores are free, and how much memory this process holds."""

import os
import statistics
import time


def available_bytes() -> int | None:
    """Bytes of main memory that are available; all of it where only that is known, None where
    nothing is."""
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            for line in f:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: sysconf below knows the whole memory only
    names = os.sysconf_names
    if "SC_PHYS_PAGES" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def free_cores() -> int:
    """Cores on which no other process computes, at least 1: the median of nine samples within 50
    ms."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    runnable = []  # processes and threads that compute or wait for a core, this one included
    try:
        for _ in range(9):
            with open("/proc/loadavg", encoding="ascii") as f:
                runnable.append(int(f.read().split()[3].partition("/")[0]))
            time.sleep(0.006)
    except OSError:
        return cores  # not Linux
    busy = int(statistics.median(runnable)) - 1
    return max(1, min(cores, (os.cpu_count() or cores) - busy))
