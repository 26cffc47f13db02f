"""How much one caller may ask: a bucket of tokens each."""

from __future__ import annotations

import math

from onthedot.clock import SECOND, Clock, Micros
from onthedot.server.problems import Problem

_MOST_BUCKETS = 10_000


class Limits:
    """`rate` requests a second for each caller, `burst` of them at once."""

    def __init__(self, clock: Clock, *, rate: float, burst: int) -> None:
        self._clock = clock
        self._each = round(SECOND / rate)
        self._depth = self._each * burst
        self._full_at: dict[str, Micros] = {}  # when a caller's bucket will be full again

    def take(self, caller: str) -> None:
        """Take a token, or refuse with the time to wait."""
        now = self._clock.steady()
        full_at = max(self._full_at.get(caller, now), now) + self._each
        if full_at - now > self._depth:
            seconds = math.ceil((full_at - now - self._depth) / SECOND)
            raise Problem(
                429,
                "too-many",
                f"expected fewer requests: this key's come faster than they are let in; ask again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )
        if len(self._full_at) >= _MOST_BUCKETS:
            self._forget(now)
        self._full_at[caller] = full_at

    def _forget(self, now: Micros) -> None:
        """Callers whose buckets are full are as good as new; if all are busy, the least busy ones go."""
        busy = sorted((at, caller) for caller, at in self._full_at.items() if at > now)
        self._full_at = {caller: at for at, caller in busy[-_MOST_BUCKETS // 2 :]}
