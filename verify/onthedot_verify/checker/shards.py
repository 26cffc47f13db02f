"""Rules for shards: layouts (S12), leaders (L2), passes (L6), settled owners (L7), and zone data (S27)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from onthedot.rules.shards import bucket_of, buckets_of
from onthedot.schedules.zones import is_newer
from onthedot.stores.values import Layout
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History

Finding = tuple[int, str]

SLACK = 1_000_000  # µs: calls to the store take time even without faults
DISTURBANCES = frozenset({"heal", "layout", "join", "leave"})
SETTLED_AFTER = 90_000_000  # µs: each shard is with its owner, after one handover per renewal
FEW = 2  # how often a shard may still change hands, because a call was slow


def s12_layouts(history: History) -> Iterator[Finding]:
    """Versions of the layout only grow. A term and an accepted plan have the current version, and the plan's job is in
    its shard."""
    layout = Layout()
    for event in history.events:
        match event["ev"]:
            case "layout":
                if event["version"] <= layout.version:
                    yield event["seq"], f"layout {event['version']} follows layout {layout.version}"
                layout = Layout(event["version"], event["shards"])
            case "elect" | "plan" | "replan" if event["ev"] == "elect" or event["term"]:
                given, shard = event.get("layout", 1), event.get("shard", 0)
                what = "a term" if event["ev"] == "elect" else f"a {event['ev']}"
                if given != layout.version or not 0 <= shard < layout.shards:
                    yield event["seq"], f"{what} of shard {shard} in layout {given} was accepted, but it is {layout}"
                elif "job_id" in event and bucket_of(event["job_id"]) not in buckets_of(shard, layout.shards):
                    yield event["seq"], f"{what} of shard {shard} was accepted for job {event['job_id']} of another"


def s27_zone_data(history: History) -> Iterator[Finding]:
    """No node wins a term while a living planner that does not drain has newer zone data. Under a term no slot is
    planned before its shard's next slots were computed with the term's zone data."""
    known: dict[int, Event] = {}  # by shard: its newest term
    for event in history.events:
        match event["ev"]:
            case "elect" if event.get("tzdata"):
                last = known.get(event["shard"])
                if last is None or last["term"] != event["term"]:
                    newer = [inc for inc in history.joined if _is_newer(history, inc, event)]
                    if newer:
                        told = history.joined[newer[0]]
                        what = f"{event['tzdata']}, but {told['node_id']} has {told['tzdata']}"
                        yield event["seq"], f"term {event['term']} of shard {event['shard']} was won with {what}"
                known[event["shard"]] = event
            case "zones" if event["shard"] in known:
                known[event["shard"]] = known[event["shard"]] | {"zones": event["zones"]}
            case "plan" if event["term"]:
                term = known.get(event.get("shard", 0))
                if term is not None and term["zones"] != term["tzdata"]:
                    made = term["zones"] or "an unknown version"
                    yield event["seq"], f"a plan with zone data {term['tzdata']} continues slots of {made}"


def _is_newer(history: History, inc: str, event: Event) -> bool:
    """Whether an incarnation lived when another won a term, did not drain, and had newer zone data."""
    joined = history.joined[inc]
    if joined["seq"] > event["seq"] or history.incarnations[inc].until(event["seq"]) <= event["t_store"]:
        return False
    now, drains = event["t_store"], [drain for drain in history.drains[inc] if drain[0] < event["seq"]]
    drained = any(until is None or until > now for _, until in drains)
    return not drained and is_newer(joined.get("tzdata", ""), event["tzdata"])


def l2_leaders(history: History) -> Iterator[Finding]:
    """Each shard gets a leader within two term time-outs, and is never longer without one."""
    if history.healed is None:
        return
    patience = 2 * history.settings["term_ttl"] + SLACK
    for shard, begins, ends, events in _stretches(history, "elect"):
        covered = begins
        for event in events:
            if event["until"] > begins and event["t_store"] - covered > patience:
                yield event["seq"], f"shard {shard} had no leader for {event['t_store'] - covered} µs"
            covered = max(covered, event["until"])
        if ends - covered > patience:
            yield history.events[-1]["seq"], f"shard {shard} has had no leader for {ends - covered} µs"


def l6_passes(history: History) -> Iterator[Finding]:
    """A planner looks at the schedules of each shard at least once in two intervals."""
    if history.healed is None:
        return
    patience = 2 * history.settings["plan_every"] + SLACK
    for shard, begins, ends, events in _stretches(history, "pass"):
        begins += 2 * history.settings["term_ttl"] + SLACK
        passes = [event["t_store"] for event in events if event["t_store"] > begins]
        for earlier, later in pairwise([begins, *passes, ends]):
            if later - earlier > patience:
                yield history.events[-1]["seq"], f"no planner passed shard {shard} between {earlier} and {later}"


def l7_settled(history: History) -> Iterator[Finding]:
    """After a while without changes, shards stay with their owners."""
    if history.healed is None:
        return
    calm, won = history.end, dict[int, int]()
    terms: dict[int, int] = {}
    for event in history.events:
        if event["ev"] in DISTURBANCES:
            calm, won = event["t_store"] + SETTLED_AFTER, {}
        elif event["ev"] == "elect":
            shard = event["shard"]
            if terms.get(shard) != event["term"] and event["t_store"] > max(calm, history.healed):
                won[shard] = won.get(shard, 0) + 1
                if won[shard] > FEW:
                    yield event["seq"], f"shard {shard} changed hands {won[shard]} times, without a fault"
            terms[shard] = event["term"]


def _stretches(history: History, ev: str) -> Iterator[tuple[int, int, int, list[Event]]]:
    """Yields for each layout and each of its shards, after the faults: the shard, from when to when, and its events."""
    changes = [(0, 0, 1), *((event["seq"], event["t_store"], event["shards"]) for event in history.by["layout"])]
    ends = [*((seq, at) for seq, at, _ in changes[1:]), (history.events[-1]["seq"] + 1, history.end)]
    for (first, began, shards), (last, ended) in zip(changes, ends, strict=True):
        begins = max(began, history.healed or 0)
        if ended <= begins:
            continue
        found = [event for event in history.by[ev] if first < event["seq"] < last]
        for shard in range(shards):
            yield shard, begins, ended, [event for event in found if event.get("shard", 0) == shard]
