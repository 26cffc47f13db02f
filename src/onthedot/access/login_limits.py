"""How often a login is looked at: by name and address, and by address.

A limit for a name alone would let anybody keep its user out, by trying it. So it holds for whoever comes from the same
address, and its user gets in from any other. Whoever tries many names from one address meets the second, wider limit.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from ipaddress import IPv6Address, IPv6Network, ip_address

from onthedot.clock import SECOND, Clock, Micros
from onthedot.errors import LoginLimited

WITHIN = 60 * SECOND
FOR_NAME = 5
"""So many logins in so long a time are looked at for one name from one address, by one server."""
FROM_ADDRESS = 30
"""So many from one address, for whatever names."""
REFUSED_FROM_ADDRESS, REFUSED = 30, 300
"""So many refused logins are audited in so long a time, from one address and in all, by one server."""
MOST = 10_000
"""How many of each are kept in mind: strangers choose them."""
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
