"""`ZoneData`: the version of the zone data on each machine. A process keeps the version that it read first.

Machines have different versions, and update them at different times.
"""

from __future__ import annotations

from collections.abc import Callable

from onthedot_verify.simulation.chance import keyed
from onthedot_verify.simulation.network import CALLER

_FIRST, _THEN = ("2025b", "2026a"), "2026b"


class ZoneData:
    """The version on each machine, by its name. Only versions differ: all slots are computed with the same rules."""

    def __init__(self, seed: str, seconds: float, time: Callable[[], float]) -> None:
        self._seed = seed
        self._seconds = seconds
        self._time = time
        self._read: dict[str, str] = {}  # by process

    def __call__(self, machine: str) -> str:
        return self._read.setdefault(CALLER.get(), self._installed(machine))

    def _installed(self, machine: str) -> str:
        """One version at first, and a newer one from some instant on."""
        if self._time() >= self._seconds * keyed(self._seed, machine, "update"):
            return _THEN
        return _FIRST[int(keyed(self._seed, machine, "zone data") * len(_FIRST))]
