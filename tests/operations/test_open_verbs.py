"""The verbs work on a store that this process opens, while a node elsewhere executes the runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.errors import RevisionConflict
from onthedot.operations.open_verbs import opened
from onthedot.operations.verbs import Verbs

NAP = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'open.db'}"


async def test_an_open_store_has_as_many_connections_as_its_settings_say(postgres_url: str):
    async with opened(f"{postgres_url}?connections=9", otd.Settings(api_connections=3)) as there:
        assert (await there.store.about()).connections == 3
    async with opened(f"{postgres_url}?connections=9") as there:
        assert (await there.store.about()).connections == 9


async def test_a_node_elsewhere_executes_runs_that_are_submitted_here(url: str):
    sched = otd.Scheduler(url)

    @sched.job
    async def double(n: int) -> int:
        return 2 * n

    async with sched, opened(url) as there:
        verbs = there.verbs()
        run = await verbs.submit("double", {"n": 21})
        assert await run.result(timeout="20s") == 42
        assert (await verbs.put(NAP)).change == "created"
        assert await verbs.result(await verbs.trigger("nap"), timeout="20s") is None
        assert [record.job.name for record in await sched.list_jobs()] == ["double", "nap"]


async def test_waiting_for_a_result_ends_at_the_time_out(url: str):
    async with opened(url) as there:
        await there.verbs().put(NAP)
        run = await there.verbs().submit("nap")
        with pytest.raises(TimeoutError):
            await run.result(timeout="50ms")


async def test_verbs_see_only_the_jobs_of_their_namespace(url: str):
    async with opened(url) as there:
        await there.verbs("night").put(replace(NAP, namespace="night"))
        assert await there.verbs().get_job("nap") is None
        run = await there.verbs("night").submit("nap")
        found = await there.verbs("night").get_run(run)
        assert found is not None
        assert found.namespace == "night"
        with pytest.raises(otd.UnknownJob, match="nap"):
            await there.verbs().submit("nap")


@pytest.mark.parametrize("kind", ["scheduler", "open"])
async def test_an_edit_based_on_an_old_revision_is_refused(url: str, kind: str):
    changed = replace(NAP, priority="high")
    async with otd.Scheduler(url) as sched, opened(url) as there:
        verbs: Verbs = sched if kind == "scheduler" else there.verbs()
        await verbs.put(NAP, revision=0)
        await verbs.put(NAP, revision=0)  # repeated, as if the first answer was lost: it changes nothing
        with pytest.raises(RevisionConflict, match="expected no such job, found revision 1"):
            await verbs.put(changed, revision=0)
        with pytest.raises(RevisionConflict, match="expected revision 7, found revision 1"):
            await verbs.put(changed, revision=7)
        assert (await verbs.put(changed, revision=1)).record.revision == 2
        await verbs.remove("nap")
        with pytest.raises(RevisionConflict, match="expected revision 2, found none"):
            await verbs.put(NAP, revision=2)
