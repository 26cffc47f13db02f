"""Keys under random operations: valid keys are accepted, and others are refused at most five seconds later."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.access import keys
from onthedot.access.authenticator import Authenticator
from onthedot.access.credentials import read
from onthedot.access.permissions import Grant, Role
from onthedot.clock import SECOND, Micros
from onthedot.stores.memory import MemoryStore
from tests.access.clocks import ManualClock

GRANT = Grant(role=Role.OPERATOR, namespaces=("a",))
WITHIN = 5 * SECOND

STEPS = st.one_of(
    st.tuples(st.just("issue"), st.none() | st.integers(1, 20)),
    st.tuples(st.just("revoke"), st.integers(0, 4)),
    st.tuples(st.just("turn"), st.sampled_from([0, 0.5, 1.5, 2, 4, 5, 10])),
    st.tuples(st.just("check"), st.integers(0, 4)),
    st.tuples(st.just("forge"), st.integers(0, 4)),
)


@dataclass
class Known:
    """What the test knows of a key."""

    text: str
    id: str
    expires_at: Micros | None
    revoked_at: Micros | None = None

    def is_valid(self, now: Micros) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def must_be_refused(self, now: Micros) -> bool:
        revoked = self.revoked_at is not None and now >= self.revoked_at + WITHIN
        return revoked or (self.expires_at is not None and now >= self.expires_at)


@given(st.lists(STEPS, max_size=30), st.integers(0, 63), st.sampled_from("0123456789abcdef"))
@settings(max_examples=150)
def test_only_valid_keys_are_accepted(steps: list[tuple[str, float | None]], place: int, digit: str):
    asyncio.run(play(steps, place, digit))


async def play(steps: list[tuple[str, float | None]], place: int, digit: str) -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    rings = [Authenticator(store, clock), Authenticator(store, clock)]
    known: list[Known] = []
    for step, value in steps:
        now = clock.now()
        if step == "issue":
            end = None if value is None else now + round(value) * SECOND
            issued = await keys.issue(store, "k", GRANT, expires_at=end)
            known.append(Known(issued.text, issued.key.id, end))
        elif step == "turn":
            clock.turn(value or 0)
        elif known:
            key = known[int(value or 0) % len(known)]
            if step == "revoke":
                await keys.revoke(store, key.id)
                key.revoked_at = key.revoked_at or now
                continue
            for ring in rings:
                await judge(ring, key, now) if step == "check" else await judge_forged(ring, key, place, digit)
    for ring in rings:
        await ring.close()


async def judge(ring: Authenticator, key: Known, now: Micros) -> None:
    principal = await ring.check(key.text)
    assert principal in (None, GRANT.principal("key", key.id, "k"))
    assert principal is not None or not key.is_valid(now)
    assert principal is None or not key.must_be_refused(now)


async def judge_forged(ring: Authenticator, key: Known, place: int, digit: str) -> None:
    good = read(key.text)
    assert good is not None
    secret = good.secret[:place] + digit + good.secret[place + 1 :]
    if secret != good.secret:
        assert await ring.check(f"otd_{key.id}.{secret}") is None
