"""Strategies of the machine: definitions that share gates, and instants that coincide."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from onthedot.clock import SECOND
from onthedot.model.after import After
from onthedot.model.job import Call, Limit, Overlap, Rate
from onthedot.model.verdict import OutcomeKind, Verdict
from onthedot_verify.contract.workbench import CANCELLED, DEAD, LOST, SUCCESS, TASK, every, fixed_delay

LOOKAHEAD, LATE, HORIZON, LAPSE = 4 * SECOND, 3 * SECOND, 3 * SECOND, 2 * SECOND
OTHER_TASK = "call:other"
TASKS = frozenset({TASK, OTHER_TASK})
NAMES = st.sampled_from(["a", "a", "b", "c"])
OVERLAPS = [
    None, Overlap("wait"), Overlap("wait", max_waiting=0), Overlap("skip"), Overlap("replace"),
    Overlap("allow"), Overlap("allow"), Overlap("allow", max_running=1), Overlap("allow", max_running=2),
]  # fmt: skip
# Each name has one limit. With several, the next run would depend on the order in which a batch ends.
LIMITS = [
    None, None, Limit(1), Limit(2), Limit(1, name="x"), Limit(2, name="w"), Limit(1, key="t"), Limit(1, name="y"),
]  # fmt: skip
RATES = [None, None, None, Rate(1, "2s"), Rate(1, "1s", burst=2), Rate(3, "2s"), Rate(1, "3s", name="r", key="t")]
SCHEDULES = [(), (every(2),), (every(2),), (every(3),), (every(2), every(3, name="z")), (fixed_delay(2),)]
AFTERS = [
    None, None, None, After("b"), After("a"), After("a", "b"), After("a", "b", any=True),
    After("b", on="failure"), After("a", "b", on="either"), After("c"),
]  # fmt: skip
FAIR: dict[str, Any] = {"queue": "fair", "share": "t"}
# Each changes a few fields of a definition, so that runs move to other queues and workers.
MORE: list[dict[str, Any]] = [
    {}, {}, {}, {"priority": "high"}, {"queue": "slow"}, {"labels": frozenset({"gpu"})}, {"assignment": "leader"},
    {"owner": "ops"}, {"task": Call(handler="other")}, FAIR, {"on": "all"},
]  # fmt: skip
TTLS = st.sampled_from([5, 60, 60])
OFFERS = st.sampled_from([(TASK,), (TASK, OTHER_TASK), (TASK, OTHER_TASK), ()])
OUTCOMES = st.sampled_from([SUCCESS, SUCCESS, DEAD, LOST, CANCELLED, OutcomeKind.FAILED, OutcomeKind.LOST])
PICKS = st.lists(st.integers(0, 5), min_size=1, max_size=3)  # of the newest leases, of which many are stale
SELDOM = st.sampled_from([False, False, False, True])
NUMBER = st.integers(0, 9)


class Moment(NamedTuple):
    """What happens in one step of `moment`."""

    seconds: int
    names: list[str]  # of the jobs that get a submitted run
    tenant: str
    plans: bool
    seats: int
    ahead: int
    ends: int  # how many attempts end
    outcome: Verdict | OutcomeKind


MOMENTS = st.builds(
    Moment,
    seconds=st.sampled_from([0, 1, 1, 2]),
    names=st.lists(NAMES, max_size=2),
    tenant=st.sampled_from("12"),
    plans=st.sampled_from([True, True, False]),
    seats=st.integers(0, 3),
    ahead=st.sampled_from([0, 0, 2]),
    ends=st.integers(0, 3),
    outcome=OUTCOMES,
)
