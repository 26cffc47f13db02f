"""Where a job under exactly_once is refused, and what is said then."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SystemClock
from onthedot.define.check import check_job
from onthedot.model.job import Call, Guarantee, Job, Sleep
from onthedot.operations.put_job import put_job
from onthedot.settings import Settings
from onthedot.stores.definitions import decode, encode
from onthedot.stores.sqlite import SqliteStore

JOB = Job(name="receipt", task=Call(handler="receipt"), guarantee=Guarantee.EXACTLY_ONCE)


async def receipt(ctx: otd.Context) -> None:
    async with ctx.transaction():
        pass


def test_memory_takes_it_and_keeps_it():
    sched = otd.Scheduler("memory:")
    sched.job(guarantee="exactly_once", retry=otd.Retry(3))(receipt)
    job = sched.jobs["receipt"]
    assert decode(encode(job)).guarantee is Guarantee.EXACTLY_ONCE


def _decorate(sched: otd.Scheduler) -> Any:
    return sched.job(guarantee="exactly_once")(receipt)


def _add(sched: otd.Scheduler) -> Any:
    sched.registry.add("receipt", receipt)
    return sched.add(JOB)


@pytest.mark.parametrize("define", [_decorate, _add])
def test_sqlite_refuses_it_when_it_is_defined(define: Callable[[otd.Scheduler], Any], tmp_path: Path):
    sched = otd.Scheduler(f"sqlite:///{tmp_path / 'otd.db'}")
    with pytest.raises(otd.DefinitionError, match=r"'receipt'.*'exactly_once' \(PostgreSQL, or memory for tests\)"):
        define(sched)
    assert sched.jobs == {}


async def test_a_store_without_transactions_refuses_it_whoever_puts_it(tmp_path: Path):
    store = await SqliteStore.open(tmp_path / "otd.db")
    try:
        with pytest.raises(otd.DefinitionError, match=r"ctx\.run_id"):
            otd.Scheduler(store).job(guarantee="exactly_once")(receipt)
        with pytest.raises(otd.DefinitionError, match=r"ctx\.run_id"):
            await put_job(store, JOB, clock=SystemClock(), settings=Settings())
        assert await store.queries.list_jobs() == []
    finally:
        await store.close()


def test_a_handler_without_a_context_is_refused():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.DefinitionError, match="first parameter named ctx"):
        sched.job(guarantee="exactly_once", name="bare")(lambda: None)
    sched.registry.add("bare", lambda: None)
    with pytest.raises(otd.UnknownHandler, match="first parameter named ctx"):
        sched.add(Job(name="bare", task=Call(handler="bare"), guarantee=Guarantee.EXACTLY_ONCE))


def test_only_a_handler_in_this_process_can_have_a_transaction():
    with pytest.raises(otd.DefinitionError, match="another process"):
        check_job(Job(name="apart", task=JOB.task, guarantee=Guarantee.EXACTLY_ONCE, isolation="process"))
    with pytest.raises(otd.DefinitionError, match="no Python handler"):
        check_job(Job(name="nap", task=Sleep(duration=timedelta(seconds=1)), guarantee=Guarantee.EXACTLY_ONCE))
