"""How much main memory is free, and how much this process holds.

available()     21474836480 bytes, say; None where the system does not tell
resident()        360000000 bytes, say; 0 where the system does not tell
"""

from __future__ import annotations

import os


def available() -> int | None:
    """Bytes of main memory that could be taken now (where only the whole is known, that); None where unknown."""
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


def resident() -> int:
    """Bytes of main memory that this process holds now; 0 where unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0  # not Linux
