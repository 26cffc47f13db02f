"""`Fault` and `Weather`: what goes wrong, as data that can be stored, replayed and shrunk.

| kind | what happens to the node |
|---|---|
| crash | kill -9; it boots again after `length` |
| freeze | SIGSTOP; SIGCONT after `length` |
| stop | SIGTERM: it drains and ends, and boots again `length` later |
| cut | for `length`, each call to the store fails before it is done |
| deaf | for `length`, each call to the store is done, and its answer is lost |
| flaky | for `length`, a third of its calls are lost, before or after they are done |
| slow | for `length`, calls take up to `amount` seconds each way, and may be done after their caller has died |
| skew | its clock is `amount` seconds off, for `length` |
| drift | its steady clock runs `amount` ppm too fast, for `length` |
| step | the store's clock is set `amount` seconds forward or back, and so are the nodes' estimates of it |
| late | for `length`, the caller gives up each call, and the call is done up to `amount` seconds later |
| held | the call waits `amount` seconds, as behind a lock, before it is done; the caller waits for the answer |

With `op`, a fault waits for the node's next call of that name after `at`. It strikes `delay` seconds after that call is
about to be sent (`when` "before"), or is done and not yet answered ("after").
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.stores.documents import Documents
from onthedot.stores.protocol import Store
from onthedot.stores.queries import Queries
from onthedot_verify.simulation.chance import Chance

_CALLS = (*(name for part in (Store, Queries, Documents) for name in dir(part) if name[0] != "_"), "begin", "commit")
KINDS = ("crash", "freeze", "stop", "cut", "deaf", "flaky", "slow", "skew", "drift", "late", "step", "held")
OPS = (
    *("finish", "finish", "finish", "arm", "arm", "reserve", "reserve", "plan", "plan", "reap", "reap"),
    *("beat", "put_job", "recover", "renew", "campaign", "submit", "expire", "orphans", "release", "leave", "register"),
    *("pause_job", "resume_job", "cancel", "delete_job", "prune_runs", "expire", "recount_gates"),
    *("begin", "commit", "commit"),
)
LATE_OPS = (
    "plan",
    "plan",
    "finish",
    "arm",
    "beat",
    "renew",
    "campaign",
    "reap",
    "expire",
    "release",
    "put_job",
    "submit",
    "commit",
)
HELD_OPS = ("put_job", "pause_job", "resume_job", "move_slot")
"""Calls of users that may wait for a lock. Their windows are computed before."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, `at` seconds after the beginning. The kinds are in the table above.

    >>> from onthedot_verify.simulation import Fault
    >>> dies_with_a_verdict = Fault(at=30, kind="crash", node=0, length=5, op="finish", when="after")
    >>> Fault(at=30, kind="crahs", node=0, length=5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: kind of a fault: expected a known kind, got 'crahs'...
    """

    at: float
    kind: str
    node: int
    length: float
    amount: float = 0.0
    op: str = ""
    when: str = "before"
    delay: float = 0.0

    def __post_init__(self) -> None:
        """An unknown name would never strike, and its test would always pass."""
        known = {"kind": KINDS, "when": ("before", "after"), "op": ("", *_CALLS)}
        for field, values in known.items():
            value = getattr(self, field)
            if value not in values:
                hint = did_you_mean(value, values)
                raise DefinitionError(f"{field} of a fault: expected a known {field}, got {value!r}{hint}")


@dataclass(frozen=True, slots=True)
class Weather:
    """What goes wrong all the time during the faults: lost calls, lost hints, and slow calls.

    The fields are the part of calls that is lost, of hints that are lost, and of calls that are slow, and the latency
    of a slow call in seconds. `CALM` loses nothing.

    >>> from onthedot_verify.simulation import Scenario, Weather
    >>> storm = Scenario(seed="7", weather=Weather(lost=0.1, hints_lost=1.0, latency=0.5))
    >>> storm.weather.lost > Scenario().weather.lost
    True
    """

    lost: float = 0.01
    hints_lost: float = 0.2
    slow: float = 0.3
    latency: float = 0.02


CALM = Weather(lost=0.0, hints_lost=0.0, slow=0.1, latency=0.005)


def to_json(faults: list[Fault]) -> str:
    """The faults as JSON text, one per line."""
    default = asdict(Fault(0, "crash", 0, 0))
    always = ("at", "kind", "node")
    rows = [{k: v for k, v in asdict(fault).items() if k in always or v != default[k]} for fault in faults]
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"


def from_json(text: str) -> list[Fault]:
    """Read the text of `to_json`."""
    rows: list[dict[str, Any]] = json.loads(text)
    return [Fault(**({"length": 0.0} | row)) for row in rows]


# How often each kind is drawn. Steps of the store's clock are only drawn with `extra`.
_WEIGHTS = {
    "crash": 5,
    "freeze": 6,
    "stop": 2,
    "cut": 3,
    "deaf": 2,
    "flaky": 2,
    "slow": 2,
    "drift": 1,
    "skew": 2,
    "late": 2,
}
_LENGTHS = {
    "crash": (0.5, 40.0),
    "freeze": (0.5, 40.0),
    "stop": (0.5, 20.0),
    "cut": (0.5, 40.0),
    "deaf": (0.5, 10.0),
    "flaky": (2.0, 30.0),
    "slow": (2.0, 30.0),
    "drift": (30.0, 300.0),
    "skew": (30.0, 300.0),
    "late": (0.001, 0.001),
    "step": (0.001, 0.001),
    "held": (0.001, 0.001),
}
_AMOUNTS = {
    "slow": (0.05, 4.0),
    "drift": (-300.0, 300.0),
    "skew": (-400.0, 400.0),
    "late": (0.1, 6.0),
    "step": (-20.0, 20.0),
    "held": (0.5, 8.0),
}


def generate(seed: str, *, nodes: int, seconds: float, every: float, extra: tuple[str, ...] = ()) -> list[Fault]:
    """Draw a fault every so many seconds, and now and then one for the whole cluster at once."""
    chance = Chance(f"{seed} faults")
    kinds = [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)] + list(extra) * 3
    found: list[Fault] = []
    at = chance.between(0, 2 * every)
    while at < seconds:
        kind = chance.choice(kinds)
        if chance.fraction() < 0.05:
            found += _blackout(chance, at, nodes)
        else:
            found.append(_one(chance, at, kind, chance.whole(nodes)))
        at += chance.between(0, 2 * every)
    return found


def _one(chance: Chance, at: float, kind: str, node: int) -> Fault:
    length = round(chance.between(*_LENGTHS[kind]), 3)
    amount = round(chance.between(*_AMOUNTS[kind]), 3) if kind in _AMOUNTS else 0.0
    op, when, delay = "", "before", 0.0
    if kind in ("crash", "freeze", "deaf") and chance.fraction() < 0.6:
        op = chance.choice(OPS)
        when = "after" if kind == "deaf" else chance.choice(("before", "after"))
        delay = round(chance.between(0, 0.5), 3) if chance.fraction() < 0.3 else 0.0
    elif kind == "late":
        op, length = chance.choice(LATE_OPS), 0.001
    elif kind == "held":
        op = chance.choice(HELD_OPS)
    if kind == "freeze" and chance.fraction() < 0.4:
        length = round(chance.between(14.0, 22.0), 3)  # about as long as a lease: the critical length
    return Fault(round(at, 3), kind, node, length, amount, op, when, delay)


def _blackout(chance: Chance, at: float, nodes: int) -> list[Fault]:
    """All nodes at once: there is no planner and no reaper."""
    kind = chance.choice(("crash", "freeze", "cut"))
    length = chance.between(20.0, 240.0)
    return [
        Fault(round(at + chance.between(0, 3), 3), kind, node, round(length + chance.between(0, 5), 3))
        for node in range(nodes)
    ]
