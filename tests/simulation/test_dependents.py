"""The simulator has jobs of every kind that run after others, edits them, and the checker knows them."""

from collections.abc import Iterable
from functools import partial

import pytest

from onthedot.model.after import check_cycle
from onthedot.model.job import Job
from onthedot_verify.checker import History
from onthedot_verify.simulation import Scenario, simulate

SCENARIO = Scenario(seed="dependents", minutes=25, fault_every=20)


@pytest.mark.slow
def test_each_kind_of_child_follows_and_is_executed():
    outcome = simulate(SCENARIO)
    assert outcome.violations == []
    history = History(outcome.events)
    kinds, ends = set(), set()
    for follow in history.by["follow"]:
        known = history.job(follow["job_id"], follow["seq"])
        assert known is not None
        assert known[1].after is not None
        kinds.add((known[1].after.any, known[1].after.on))
        ends.add(history.runs[int(follow["trigger"].removeprefix("after:"))].last.name)
        run = history.runs[follow["run"]]
        waits = history.is_kept(run, outcome.events[-1]["seq"])
        assert run.starts or run.last.name == "cancelled" or waits, f"expected run {run.id} to start"
    assert kinds >= {(False, "success"), (True, "success"), (True, "failure"), (False, "either"), (True, "either")}
    assert ends == {"succeeded", "dead", "lost"}
    assert outcome.counts["follow"] > 80


def parents(program: dict[str, Job], name: str) -> Iterable[str]:
    after = program[name].after
    return () if after is None else after.parents


def test_edits_change_parents_and_make_no_cycle():
    work = SCENARIO.filled().workload
    assert work is not None
    assert any(job.after != work.jobs[job.name].after for _, job in work.edits)
    for when, _ in work.edits:
        program = work.version(when)
        for name, job in program.items():
            check_cycle(name, job.after, partial(parents, program))
