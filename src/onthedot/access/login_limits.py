"""Limits logins: attempts per name and address, attempts per address, and passwords that are compared at once.

A limit per name alone would let anybody lock that user out. So attempts are counted per name and address: attempts from
one address do not lock the user out elsewhere. A second, wider limit counts all names that one address tries. Addresses
take turns, so an attacker with many addresses waits like everybody else.
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
"""Attempts for one name from one address, per `WITHIN` and server."""
FROM_ADDRESS = 30
"""Attempts from one address for any names, per `WITHIN` and server."""
REFUSED_FROM_ADDRESS, REFUSED = 30, 300
"""Refused logins that are audited per `WITHIN` and server: of one address, and of all."""
MOST = 10_000
"""Most names and addresses that are remembered: strangers choose them."""
AT_ONCE = 4
"""How many passwords one server compares at once. Each takes 64 MiB."""
WAIT_OF_ONE, WAIT = 2, 64
"""How many logins may wait: from one address, and in all."""
_OF_ONE = 64  # bits of an IPv6 network; the owner of a network chooses the rest of an address


class LoginLimits:
    """Counts the login attempts of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._names = _Tries(FOR_NAME)
        self._places = _Tries(FROM_ADDRESS)

    def begin(self, name: str, source: str) -> None:
        """Count an attempt before it is checked. Raise `LoginLimited` if there were too many. Successful attempts
        count, too: otherwise somebody with one password could use it to try others."""
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
    """Lets callers compare passwords, one address after another. While others wait, addresses with failed logins share
    every other turn. They also lose their place first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = AT_ONCE
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # by place; the next one first
        self._failed = _Tries(1)
        self._others_turn = False  # whether the next turn is for addresses with failed logins

    def failed(self, source: str) -> None:
        """Record a failed login from this address."""
        self._failed.count(place_of(source), self._clock.steady())

    @asynccontextmanager
    async def turn(self, source: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it. Raise `LoginLimited` if too many callers wait from this address, and
        `LoginsBusy` if too many wait in all."""
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
                self._pass_on()  # the turn was given before the cancellation
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
        """Give the finished turn to the next waiter."""
        while self._waiting:
            found = (place for place in self._waiting if self._has_failed(place) is self._others_turn)
            place = next(found, next(iter(self._waiting)))
            self._take(place, turn := self._waiting[place][0])
            if not turn.done():  # else its waiter was cancelled
                self._others_turn = not self._others_turn
                turn.set_result(None)
                return
        self._free += 1

    def _take(self, place: str, turn: asyncio.Future[None]) -> None:
        """End this waiter's place in the queue. Others of its address go to the end."""
        waiting = self._waiting.pop(place)
        waiting.remove(turn)
        if waiting:
            self._waiting[place] = waiting

    def _has_failed(self, place: str) -> bool:
        return self._failed.again_in(place, self._clock.steady()) > 0


class Refusals:
    """Chooses which refused logins are audited. There is a limit, because strangers cause refusals and the audit only
    grows. Refusals beyond the limit are only counted, and the next audited one has their number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places = _Tries(REFUSED_FROM_ADDRESS)
        self._all = _Tries(REFUSED)
        self._left_out = 0

    def take(self, source: str) -> int | None:
        """Return how many refusals were left out before this one. None means that this one is left out, too."""
        now, place = self._clock.steady(), place_of(source)
        if self._places.again_in(place, now) or self._all.again_in("", now):
            self._left_out += 1
            return None
        self._places.count(place, now)
        self._all.count("", now)
        left_out, self._left_out = self._left_out, 0
        return left_out


class _Tries:
    """The last attempts of each key. If there are too many keys, the key with the oldest attempt is forgotten: refusing
    new keys would lock everybody out."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._at: OrderedDict[Hashable, deque[Micros]] = OrderedDict()

    def again_in(self, key: Hashable, now: Micros) -> Micros:
        """Return how long until the next attempt is accepted; 0 means now."""
        tries = self._at.get(key)
        return 0 if tries is None or len(tries) < self.most else max(0, WITHIN - (now - tries[0]))

    def count(self, key: Hashable, now: Micros) -> None:
        """Count an attempt."""
        self._at.setdefault(key, deque(maxlen=self.most)).append(now)
        self._at.move_to_end(key)
        if len(self._at) > MOST:
            self._at.popitem(last=False)

    def __len__(self) -> int:
        return len(self._at)


def place_of(source: str) -> str:
    """The part of an address that its owner cannot choose: of an IPv6 address, its network.

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
