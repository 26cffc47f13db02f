"""A store on another machine, with its own clock."""

from __future__ import annotations

from onthedot.clock import MILLISECOND, SECOND
from onthedot.stores.memory import MemoryStore


class Machine:
    """The clocks of a store and a node. The node's wall clock is wrong by `off`; its steady clock drifts by `ppm`."""

    def __init__(self, ppm: int = 0, off: int = 0) -> None:
        self.store_now = 1_000_000 * SECOND
        self.elapsed = 0
        self.ppm = ppm
        self.off = off

    def now(self) -> int:
        return self.store_now + self.off

    def steady(self) -> int:
        return 77 * SECOND + self.elapsed + self.elapsed * self.ppm // 1_000_000

    def passes(self, length: int) -> None:
        self.store_now += length
        self.elapsed += length


class Elsewhere(MemoryStore):
    """A store with its own clock. A message takes `way` in each direction."""

    def __init__(self, machine: Machine, way: int = 10 * MILLISECOND) -> None:
        super().__init__()
        self._machine = machine
        self._way = way
        self.asked = 0

    @property
    def clock(self) -> None:  # type: ignore[override]
        """None: the store's clock is on another machine."""

    async def tell_time(self) -> int:
        self.asked += 1
        self._machine.passes(self._way)
        told = self._machine.store_now
        self._machine.passes(self._way)
        return told
