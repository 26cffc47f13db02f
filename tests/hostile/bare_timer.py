"""Sleeps until fixed instants and records when it woke: `python -m tests.hostile.bare_timer FILE PERIOD`.

It uses the same instants as the ticks of the node. If it wakes late, the machine is late, not the scheduler.
"""

from __future__ import annotations

import sys
import time


def main(path: str, period: int) -> None:
    """Record every `period` microseconds of the wall clock, until this process is killed."""
    with open(path, "a", buffering=1) as file:
        slot = time.time_ns() // 1_000 // period * period
        while True:
            slot += period
            while (left := slot - time.time_ns() // 1_000) > 0:
                time.sleep(left / 1e6)
            file.write(f"{slot} {time.time_ns() // 1_000}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
