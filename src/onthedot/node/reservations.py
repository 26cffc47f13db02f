"""What a worker holds for later: reservations by due instant, earliest first."""

from __future__ import annotations

import heapq

from onthedot.clock import Micros
from onthedot.model.run import Lease


class Reservations:
    """A heap of leases. No poll stands between a due instant and its start: the head's instant is the timer."""

    def __init__(self) -> None:
        self._heap: list[tuple[Micros, int, str, Lease]] = []  # a run may be in here twice: under an old lease, too

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, leases: list[Lease]) -> None:
        for lease in leases:
            heapq.heappush(self._heap, (lease.due_at, lease.run_id, lease.lease_id, lease))

    def add_at(self, instant: Micros, lease: Lease) -> None:
        """Take this one out as if it were due at another instant."""
        heapq.heappush(self._heap, (instant, lease.run_id, lease.lease_id, lease))

    def next_due(self) -> Micros | None:
        """The earliest due instant."""
        return self._heap[0][0] if self._heap else None

    def lease_ids(self) -> list[str]:
        """The leases in here."""
        return [lease.lease_id for *_, lease in self._heap]

    def take(self, until: Micros, most: int) -> list[Lease]:
        """Take out what is due by `until`, earliest first, at most so many."""
        taken: list[Lease] = []
        while self._heap and len(taken) < most and self._heap[0][0] <= until:
            taken.append(heapq.heappop(self._heap)[-1])
        return taken

    def take_all(self) -> list[Lease]:
        """Take out everything."""
        taken = [lease for *_, lease in sorted(self._heap, key=lambda entry: entry[:3])]
        self._heap.clear()
        return taken
