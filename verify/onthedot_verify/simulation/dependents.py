"""Jobs that run after others, added to the workload: all and any, on success, failure and either, in chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onthedot.define.options import build_job
from onthedot.model.after import After
from onthedot.model.job import Call, Job, Limit, Retry
from onthedot.schedules import every
from onthedot_verify.simulation.actions import Action, draw_controls, draw_submits
from onthedot_verify.simulation.chance import Chance
from onthedot_verify.simulation.workload import Behaviour, Workload

_SOURCES: dict[str, tuple[dict[str, Any], Behaviour]] = {
    "source0": ({"overlap": "allow"}, Behaviour(0.1, 3.0, 0.3)),
    "source1": ({"retry": Retry(3, delay="2s", jitter=False)}, Behaviour(0.1, 4.0, 0.4)),
    "source2": ({"guarantee": "at_most_once", "overlap": "allow"}, Behaviour(2.0, 9.0, 0.1)),
}
"""Parents that end in each way: at once, after a retry, and lost with their node."""

_DEPENDENTS: tuple[tuple[After, dict[str, Any]], ...] = (
    (After("source0", "source1"), {}),
    (After("source0", "source2", any=True), {"retry": Retry(2, delay="2s")}),
    (After("source1", on="failure"), {"queue": "mail"}),
    (After("source0", "source2", any=True, on="failure"), {"guarantee": "at_most_once"}),
    (After("source0", "source1", "source2", on="either"), {"assignment": "leader"}),
    (After("next00", "source2", on="either"), {"concurrency": Limit(1), "priority": "high"}),
    (After("next01", "job03", any=True, on="either"), {"labels": frozenset({"gpu"})}),
    (After("next05", "job00"), {"schedule": every("300s")}),
)
"""By the number of the job: its parents and further options. Each parent has a lower number, so no mix of program
versions has a cycle."""


def with_dependents(work: Workload, seed: str, *, nodes: int, seconds: float) -> Workload:
    """The same workload with some 300 more starts an hour, a part of them after others. These jobs get the same actions
    as all jobs, and some edits that change their parents."""
    chance = Chance(f"{seed} dependents")
    defined = [_source(chance, name) for name in _SOURCES] + [_dependent(chance, n) for n in range(len(_DEPENDENTS))]
    program = {job.name: job for job, _ in defined}
    edits = _edits(chance, {name: job for name, job in program.items() if job.after is not None}, seconds)
    names = sorted(program)
    actions = [Action(at + chance.between(0, 20), "put", chance.whole(nodes), job.name) for at, job in edits]
    actions += draw_controls(Chance(f"{seed} controls of dependents"), names, nodes, seconds, every=180)
    actions += draw_submits(Chance(f"{seed} submits of dependents"), names, nodes, seconds, every=200)
    return replace(
        work,
        jobs=work.jobs | program,
        behaviours=work.behaviours | {job.name: behaviour for job, behaviour in defined},
        edits=tuple(sorted([*work.edits, *edits], key=lambda edit: edit[0])),
        actions=tuple(sorted([*work.actions, *actions], key=lambda action: action.at)),
    )


def _source(chance: Chance, name: str) -> tuple[Job, Behaviour]:
    options, behaviour = _SOURCES[name]
    return _job(name, options | {"schedule": every(f"{50 + chance.whole(60)}s")}), behaviour


def _dependent(chance: Chance, number: int) -> tuple[Job, Behaviour]:
    after, options = _DEPENDENTS[number]
    behaviour = Behaviour(0.0, chance.choice((0.02, 1.0, 5.0)), chance.choice((0.0, 0.2)))
    return _job(f"next{number:02}", options | {"after": after}), behaviour


def _job(name: str, options: dict[str, Any]) -> Job:
    given = {"name": name, "args": {"mark": 0, "tenant": "own"}} | options
    return build_job(Call(handler=name), given)


def _edits(chance: Chance, program: dict[str, Job], seconds: float) -> list[tuple[float, Job]]:
    """New versions: always another mark, and sometimes other ends that count, another parent, or one parent less."""
    found = []
    newest, names = dict(program), sorted(program)
    when, mark = chance.between(0, 900), 1_000
    while when < seconds:
        mark += 1
        old = newest[chance.choice(names)]
        earlier = [*_SOURCES, *names[: names.index(old.name)]]
        newest[old.name] = replace(old, args={"mark": mark, "tenant": "own"}, after=_other(chance, old.after, earlier))
        found.append((round(when, 3), newest[old.name]))
        when += chance.between(0, 900)
    return found


def _other(chance: Chance, old: After | None, earlier: Sequence[str]) -> After | None:
    draw, more = chance.fraction(), chance.choice(earlier)
    if old is None or draw < 0.3:
        return old
    if draw < 0.5:
        return After(*old.parents, any=not old.any, on=old.on)
    if draw < 0.7:
        return After(*old.parents, any=old.any, on=chance.choice(("success", "failure", "either")))
    if draw < 0.85 or len(old.parents) == 1:
        return After(*{*old.parents, more}, any=old.any, on=old.on)
    return After(*old.parents[1:], any=old.any, on=old.on)
