"""After `pause` has returned in one process, no other process arms a run of the job until it is resumed."""

from __future__ import annotations

import asyncio

import pytest

from onthedot.clock import Micros, SystemClock
from onthedot.operations.put_job import resume_job
from onthedot.rules.windows import Missed
from tests.crash.kit import gather_evidence
from tests.crash.victim import ALWAYS
from tests.processes import verdicts
from tests.processes.client import client
from tests.processes.kit import cluster, now
from tests.processes.node import settings

LEASE = 15.0
LENGTH = 0.7  # seconds, for seven slots


class Recorded(SystemClock):
    """A clock that keeps its last reading: the instant that a resume used as now."""

    told = 0

    def now(self) -> Micros:
        self.told = super().now()
        return self.told


@pytest.mark.slow
async def test_nothing_is_armed_between_pause_and_resume(tmp_path):
    modes: tuple[Missed, ...] = ("none", "last", "all")
    pauses = []
    with cluster(tmp_path) as nodes:
        nodes.boot_all("a", "b", lease=LEASE)
        async with client(nodes) as asking:
            job_id = await asking.job_id(ALWAYS)
            for missed in modes:
                nodes.wait_for_start(ALWAYS, since=now())
                begun = now()
                paused = await asking.store.pause_job(job_id, reason="from elsewhere")
                acknowledged = now()
                assert paused.withdrawn > 0
                await asyncio.sleep(LENGTH)  # the pause itself
                asked, clock = now(), Recorded()
                resumed = await resume_job(
                    asking.store, job_id, missed=missed, clock=clock, settings=settings("", LEASE)
                )
                pauses.append((missed, begun, acknowledged, asked, clock.told, resumed))
            nodes.wait_for_start(ALWAYS, since=now())
        nodes.settle()
        evidence = await gather_evidence(nodes)
    verdicts.check_all(evidence, nodes.faults, lease=LEASE, lost=False)
    runs = {run.slot_at: run for run in evidence.runs.values() if run.job == ALWAYS}
    # A later pause withdraws all planned runs after an instant between its `begun` and `acknowledged`.
    ahead = [begun for _, begun, *_ in pauses[1:]] + [2**62]
    for (missed, _, acknowledged, asked, decided, resumed), until in zip(pauses, ahead, strict=True):
        during = [
            attempt
            for run in runs.values()
            for attempt in evidence.attempts[run.id]
            if acknowledged < attempt.armed_at < asked
        ]
        assert during == [], f"armed while paused: {during}"
        late = [slot for slot in resumed.slots if slot <= decided]
        skipped = sum(skip.count for skip in resumed.skips)
        slots = len([slot for slot in runs if acknowledged < slot <= asked]) + skipped
        assert slots >= 6, "expected at least six slots in the pause"
        assert {"none": not late, "last": len(late) == 1, "all": not skipped}[missed], (missed, late, skipped)
        assert {slot for slot in resumed.slots if slot < until} <= runs.keys()
        ends = [(str(runs[slot].state), runs[slot].reason) for slot in late]
        # Slots of the last 30 s count as on time. The overlap policy of the job lets only one of them wait.
        assert set(ends) <= ({("succeeded", "")} if missed == "last" else {("succeeded", ""), ("skipped", "overlap")})
        assert missed == "none" or ("succeeded", "") in ends
