"""Small and busy workloads for directed faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.define.options import build_job
from onthedot.model.job import Call, Job
from onthedot.settings import Settings
from onthedot_verify.simulation import CALM, Action, Behaviour, Scenario, Workload
from onthedot_verify.simulation.cluster import START, brief
from onthedot_verify.simulation.faults import Fault, from_json

FAULTS = Path(__file__).parent / "faults"
EDITED_AT = 150.0


def busy() -> Workload:
    """Six jobs, each about every seven seconds, for three to five seconds. Some fail and are retried. One edit."""
    jobs, behaviours = {}, {}
    for number in range(6):
        name = f"busy{number}"
        options = {"name": name, "schedule": otd.every(f"{7 + number}s"), "args": {"mark": 0}, "overlap": "allow"}
        if number % 2:
            options["retry"] = otd.Retry(4, delay="2s", jitter=False)
        jobs[name] = build_job(Call(handler=name), options)
        behaviours[name] = Behaviour(3.0, 5.0, 0.5 if number % 2 else 0.0)
    edits = tuple((EDITED_AT, replace(job, args={"mark": 1})) for job in jobs.values())
    return Workload(jobs, behaviours, edits, ())


def gated() -> Workload:
    """Jobs that meet closed gates all the time, and users that pause, cancel, resume, delete and submit with keys."""
    policies: dict[str, dict[str, Any]] = {
        "waits": {"overlap": otd.Overlap("wait", max_waiting=2)},
        "skips": {"overlap": "skip"},
        "replaces": {"overlap": "replace"},
        "limited": {"overlap": "allow", "concurrency": otd.Limit(1), "guarantee": "at_most_once"},
        "shares": {"overlap": "allow", "concurrency": otd.Limit(1, name="shared"), "retry": otd.Retry(3, delay="2s")},
        "shares_too": {"overlap": "allow", "concurrency": otd.Limit(1, name="shared")},
        "seldom": {"overlap": "skip", "schedule": otd.every("30s")},
    }
    jobs, behaviours = {}, {}
    for number, (name, options) in enumerate(policies.items()):
        given = {"schedule": otd.every(f"{7 + number}s"), "args": {"mark": 0, "tenant": ""}} | options
        jobs[name] = build_job(Call(handler=name), given | {"name": name})
        behaviours[name] = Behaviour(0.1, 1.0) if name == "seldom" else Behaviour(6.0, 11.0, 0.2)
    return Workload(jobs, behaviours, (), tuple(_asked(sorted(jobs))))


def placing() -> Workload:
    """More runs than seats, urgent and not; jobs that the leader places; a queue that is paused and resumed."""
    options: dict[str, dict[str, Any]] = {
        "low": {"priority": "low"},
        "critical": {"priority": "critical"},
        "given": {"assignment": "leader", "schedule": otd.every("3s"), "overlap": "allow"},
        "given_too": {"assignment": "leader", "schedule": otd.every("4s"), "overlap": "allow", "queue": "mail"},
        "mailed": {"queue": "mail", "schedule": otd.every("5s"), "overlap": "allow"},
        "spread": {"on": "all", "schedule": otd.every("20s"), "overlap": "allow"},
    }
    jobs = {
        name: build_job(Call(handler=name), {"name": name, "args": {"mark": 0, "tenant": ""}} | given)
        for name, given in options.items()
    }
    behaviours = {name: Behaviour(0.5, 1.0) for name in jobs} | {"low": Behaviour(2.0, 4.0)}
    actions = [
        Action(20.0 + 30 * burst + number / 100, "submit", number % 3, "low" if number % 20 < 16 else "critical")
        for burst in range(9)
        for number in range(40)
    ]
    for number in range(12):
        actions.append(Action(25.0 + 25 * number, "stop_queue", number % 3, "mail"))
        actions.append(Action(34.0 + 25 * number, "open_queue", (number + 1) % 3, "mail"))
    serves = {name: {"queues": ("default", "mail")} for name in "abc"}
    return Workload(jobs, behaviours, (), tuple(actions), serves)


def _asked(names: list[str]) -> Iterator[Action]:
    """From the beginning to the end, so that some actions come after the faults."""
    for number in range(23):
        at, job = 20.0 + 30 * number, names[number % len(names)]
        yield Action(at, "pause", number % 3, job)
        yield Action(at + 20, "resume", number % 3, job, missed=("none", "last", "all")[number % 3], preview=True)
        yield Action(at + 1, "cancel", (number + 1) % 3, "", luck=0.0)
        yield Action(at + 2, "submit", number % 3, names[(number + 3) % len(names)], key=f"k{number}", tenant="t")
        yield Action(at + 28, "submit", number % 3, names[(number + 3) % len(names)], key=f"k{number}", tenant="t")
    yield Action(205.0, "delete", 0, "waits")
    yield Action(215.0, "put", 0, "waits")


def divided() -> Workload:
    """The busy jobs, while the number of shards changes every twenty seconds: to 5, 2, 8, 1 and 3."""
    lucks = (0.6, 0.2, 0.9, 0.0, 0.3)
    changes = [Action(20.0 + 20 * n, "layout", n % 4, "", luck=lucks[n % 5]) for n in range(18)]
    return replace(busy(), actions=tuple(changes))


def families() -> Workload:
    """Parents that end well, badly, at the second attempt and never, and children of every kind. One has children
    itself."""
    own = {"args": {"mark": 0}, "overlap": "allow"}
    options: dict[str, dict[str, Any]] = {
        "steady": own | {"schedule": otd.every("9s")},
        "tries": own | {"schedule": otd.every("11s"), "retry": otd.Retry(3, delay="2s", jitter=False)},
        "once": own | {"schedule": otd.every("8s"), "guarantee": "at_most_once"},
        "all": {"after": otd.After("steady", "tries", "once")},
        "any": {"after": otd.After("steady", "tries", any=True)},
        "failed": {"after": otd.After("tries", "once", any=True, on="failure")},
        "either": {"after": otd.After("tries", "once", on="either")},
        "grandchild": {"after": otd.After("all", "any")},
    }
    jobs = {
        name: build_job(Call(handler=name), {"name": name, "args": {"mark": 0}} | given)
        for name, given in options.items()
    }
    behaviours = {name: Behaviour(0.1, 1.0) for name in jobs}
    behaviours |= {"tries": Behaviour(0.5, 3.0, 0.5), "once": Behaviour(3.0, 6.0, 0.1)}
    return Workload(jobs, behaviours, (), ())


def exact() -> Workload:
    """Jobs under exactly_once, of which some always have an open transaction. Some fail in it, and some after it."""
    jobs, behaviours = {}, {}
    for number in range(6):
        name = f"exact{number}"
        options = {
            "name": name, "schedule": otd.every(f"{5 + number}s"), "args": {"mark": 0}, "guarantee": "exactly_once",
            "overlap": ("allow", "wait", "skip")[number % 3],
        }  # fmt: skip
        if number % 2:
            options |= {"retry": otd.Retry(4, delay="2s", jitter=False), "timeout": "4500ms"}
        jobs[name] = build_job(Call(handler=name), options)
        behaviours[name] = Behaviour(2.0, 5.0, 0.3 if number % 2 else 0.0)
    return Workload(jobs, behaviours, (), ())


def overdue() -> Workload:
    """A job of a short interval for each overlap and catch-up, from 40 s to 300 s, and two that are edited."""
    catch_ups: dict[str, Any] = {"none": "none", "last": "last", "all": otd.CatchUp("all", limit=100)}
    overlaps: dict[str, Any] = {"wait": "wait", "allow": otd.Overlap("allow", max_running=2), "skip": "skip"}
    overlaps["replace"] = "replace"
    jobs, behaviours = {}, {}
    for number, (overlap, catch_up) in enumerate(product(overlaps, catch_ups)):
        name = f"{overlap}-{catch_up}"
        options = {"overlap": overlaps[overlap], "catch_up": catch_ups[catch_up]}
        jobs[name] = _short(name, 4 + number % 3, **options)
        behaviours[name] = Behaviour(0.2, 4.5 if catch_up == "last" else 2.5)
    edits, actions = [], []
    for number, (at, interval) in enumerate(((100.0, 3), (210.0, 4))):
        name = f"edited{number}"
        jobs[name], behaviours[name] = _short(name, 2, overlap="allow"), Behaviour(0.1, 0.5)
        edits.append((at, _short(name, interval, overlap="allow", args={"mark": 1})))
        actions.append(Action(at, "put", number, name))
    return Workload(jobs, behaviours, tuple(edits), tuple(actions))


def _short(name: str, interval: int, **options: Any) -> Job:
    first, last = START + timedelta(seconds=40), START + timedelta(seconds=300)
    schedule = otd.every(f"{interval}s", start=first, end=last)
    return build_job(Call(handler=name), {"name": name, "args": {"mark": 0}, "schedule": schedule} | options)


def directed(name: str) -> Scenario:
    """The scenario of a fault file: twelve minutes, calm except for its faults. A word in the name of the file chooses
    the workload: `gates` for jobs with gates, `shards` for four nodes that share the planning, `places` for jobs whose
    placement matters, `parents` for jobs that run after others, `commits` for jobs under exactly_once, `outages` for
    overdue slots."""
    scenario = Scenario(
        seed=name, minutes=12, weather=CALM, workload=busy(), faults=tuple(read(name)),
        settings=Settings(seats=8, ahead=8),
    )  # fmt: skip
    if "shards" in name:
        return replace(scenario, nodes=4, workload=divided())
    if "places" in name:
        return replace(scenario, workload=placing(), settings=Settings(seats=4, ahead=4))
    if "parents" in name:
        return replace(scenario, workload=families())
    if "outages" in name:
        return replace(scenario, workload=overdue())
    if "commits" in name:
        return replace(scenario, workload=exact())
    if "gates" not in name:
        return scenario
    short = replace(scenario.settings, retention=brief(120 * SECOND), prune_every=20 * SECOND)
    return replace(scenario, workload=gated(), settings=short)


def read(name: str) -> list[Fault]:
    return from_json((FAULTS / f"{name}.json").read_text())
