"""How often a login is looked at: by name and address, and by address; and whose turn it is.

A limit for a name alone would let anybody keep its user out, by trying it. So it holds for whoever comes from the same
address, and its user gets in from any other. Whoever tries many names from one address meets the second, wider limit.
Addresses take turns. An attacker with many addresses waits for a turn like everybody else.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, IPv6Network, ip_address

from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.errors import LoginLimited, LoginsBusy

WITHIN = 60 * SECOND
FOR_NAME = 5
"""So many logins in so long a time are looked at for one name from one address, by one server."""
FROM_ADDRESS = 30
"""So many from one address, for whatever names."""
REFUSED_FROM_ADDRESS, REFUSED = 30, 300
"""So many refused logins are audited in so long a time, from one address and in all, by one server."""
MOST = 10_000
"""How many of each are kept in mind: strangers choose them."""
AT_ONCE = 4
"""So many passwords are compared at once, by one server: each takes 64 MiB."""
WAIT_OF_ONE, WAIT = 2, 64
"""So many logins wait for that, from one address and in all."""
_OF_ONE = 64  # the bits of an IPv6 address that its owner was given; the rest is its own to choose


class LoginLimits:
    """What one server keeps in mind of tries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._names = _Tries(FOR_NAME)
        self._places = _Tries(FROM_ADDRESS)

    def begin(self, name: str, source: str) -> None:
        """Count a try, before anything is known about it; `LoginLimited` if it is one too many. Good ones count, too:
        otherwise whoever has one password could use it to try others."""
        now, place = self._clock.steady(), place_of(source)
        for tries, key, what in (
            (self._places, place, "from one address"),
            (self._names, (name, place), "for one name from one address"),
        ):
            again_in = tries.again_in(key, now)
            if again_in > 0:
                raise LoginLimited(
                    f"login: expected at most {tries.most} tries a minute {what}, got more; "
                    f"try again in {-(-again_in // SECOND)} s",
                    again_in=again_in,
                )
        self._places.count(place, now)
        self._names.count((name, place), now)


class Turns:
    """Who may compare a password now. Addresses take turns, however many wait from each. Those that have failed lately
    share every other turn as long as others wait, and give way if there is no room to wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = AT_ONCE
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # by place; the next one first
        self._failed = _Tries(1)
        self._others_turn = False  # of those that have failed

    def failed(self, source: str) -> None:
        """A login from there was not good."""
        self._failed.count(place_of(source), self._clock.steady())

    @asynccontextmanager
    async def turn(self, source: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it. `LoginLimited` if too many wait from there, `LoginsBusy` if too many do."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(place_of(source))
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, place: str) -> None:
        self._make_room(place)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(place, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()  # it had come
            elif turn in self._waiting.get(place, ()):
                self._take(place, turn)
            raise

    def _make_room(self, place: str) -> None:
        if len(self._waiting.get(place, ())) >= WAIT_OF_ONE:
            self._failed.count(place, self._clock.steady())
            told = f"login: expected at most {WAIT_OF_ONE} that wait from one address, got more; try again in 1 s"
            raise LoginLimited(told, again_in=SECOND)
        if sum(map(len, self._waiting.values())) < WAIT:
            return
        told = f"login: expected at most {WAIT} that wait on this server, got more; try again in 2 s"
        busy = LoginsBusy(told, again_in=2 * SECOND)
        last = next((other for other in reversed(self._waiting) if self._has_failed(other)), None)
        if last is None or self._has_failed(place):
            raise busy
        self._take(last, turn := self._waiting[last][-1])
        if not turn.done():
            turn.set_exception(busy)

    def _pass_on(self) -> None:
        """The next one has the turn that has ended."""
        while self._waiting:
            found = (place for place in self._waiting if self._has_failed(place) is self._others_turn)
            place = next(found, next(iter(self._waiting)))
            self._take(place, turn := self._waiting[place][0])
            if not turn.done():  # cancelled, and not noticed yet
                self._others_turn = not self._others_turn
                turn.set_result(None)
                return
        self._free += 1

    def _take(self, place: str, turn: asyncio.Future[None]) -> None:
        """This one does not wait any more; others of its place are the last."""
        waiting = self._waiting.pop(place)
        waiting.remove(turn)
        if waiting:
            self._waiting[place] = waiting

    def _has_failed(self, place: str) -> bool:
        return self._failed.again_in(place, self._clock.steady()) > 0


class Refusals:
    """Which refused logins are audited. Strangers make them, and the audit only grows: beyond a number in a minute they
    are counted, and the next one that is audited says how many were left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places = _Tries(REFUSED_FROM_ADDRESS)
        self._all = _Tries(REFUSED)
        self._left_out = 0

    def take(self, source: str) -> int | None:
        """None: leave this one out. Else audit it: so many were left out before it."""
        now, place = self._clock.steady(), place_of(source)
        if self._places.again_in(place, now) or self._all.again_in("", now):
            self._left_out += 1
            return None
        self._places.count(place, now)
        self._all.count("", now)
        left_out, self._left_out = self._left_out, 0
        return left_out


class _Tries:
    """When something was tried last, so many times at the most. Of too many things, the one whose last try is the
    longest ago is forgotten: to refuse new ones instead would keep everybody out."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._at: OrderedDict[Hashable, deque[Micros]] = OrderedDict()

    def again_in(self, key: Hashable, now: Micros) -> Micros:
        """How long until the next try is looked at; 0: now."""
        tries = self._at.get(key)
        return 0 if tries is None or len(tries) < self.most else max(0, WITHIN - (now - tries[0]))

    def count(self, key: Hashable, now: Micros) -> None:
        """One more."""
        self._at.setdefault(key, deque(maxlen=self.most)).append(now)
        self._at.move_to_end(key)
        if len(self._at) > MOST:
            self._at.popitem(last=False)

    def __len__(self) -> int:
        return len(self._at)


def place_of(source: str) -> str:
    """Where somebody comes from, as far as it cannot be chosen: of an IPv6 address, its network.

    >>> place_of("192.0.2.7"), place_of("::ffff:192.0.2.7"), place_of("2001:db8:0:1::7"), place_of("")
    ('192.0.2.7', '192.0.2.7', '2001:db8:0:1::/64', '')
    """
    try:
        address = ip_address(source.partition("%")[0])
    except ValueError:
        return source
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, _OF_ONE), strict=False))
    return str(address)
