"""Waits for instants, and writes down when it woke: `python -m tests.hostile.bare_timer FILE PERIOD`.

It is what the kernel gives anybody, at the very instants of the ticks: what is late here is not the scheduler's doing.
"""

from __future__ import annotations

import sys
import time


def main(path: str, period: int) -> None:
    """Every `period` microseconds of the wall clock, until it is killed."""
    with open(path, "a", buffering=1) as file:
        slot = time.time_ns() // 1_000 // period * period
        while True:
            slot += period
            while (left := slot - time.time_ns() // 1_000) > 0:
                time.sleep(left / 1e6)
            file.write(f"{slot} {time.time_ns() // 1_000}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
