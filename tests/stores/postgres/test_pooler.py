"""The store works through PgBouncer in transaction mode, where each transaction may have another session."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

import onthedot as otd
from onthedot.stores.postgres import PostgresStore
from onthedot_verify import contract
from tests.chaos.proxy import Proxy
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import name_of
from tests.stores.postgres.texts import TableOfTexts


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, empty_url: str) -> str:
    return f"{pgbouncer.url(name_of(empty_url))}?pooler=transaction"


ONE_OF_EACH = list({check.slice: check for check in contract.checks()}.values())


@pytest.mark.parametrize("check", ONE_OF_EACH, ids=str)
async def test_the_store_keeps_its_contract_through_a_pooler(
    check: contract.Check, pgbouncer: PgBouncer, pooled_url: str, empty_url: str
):
    """It also parses nothing inside a transaction with a wait for the answer: a client that freezes there would keep
    its locks."""
    with Proxy(pgbouncer.port) as proxy:
        store = await PostgresStore.open(pooled_url.replace(f":{pgbouncer.port}/", f":{proxy.port}/"))
        try:
            await check(contract.Workbench(store, contract.Capabilities(effects=TableOfTexts(empty_url))))
        finally:
            await store.close()
    parsed = {statement for begun_by, statement in proxy.waited_for if "READ ONLY" not in begun_by}
    assert check.slice == "transactions" or parsed == set()  # a handler's statements are its own


async def test_the_tables_may_be_in_another_schema(pgbouncer: PgBouncer, postgres_url: str):
    """No session has a search path. Each transaction sets its own, also the one that prepares statements."""
    store = await PostgresStore.open(f"{pgbouncer.url(name_of(postgres_url))}?pooler=transaction&schema=elsewhere")
    await store.pause_queue("mail", reason="test")
    assert [queue.name for queue in await store.queries.list_queues()] == ["mail"]
    await store.close()


async def test_several_nodes_share_few_sessions(pooled_url: str):
    """Two nodes execute twenty transactions at once."""
    stores = [await PostgresStore.open(pooled_url) for _ in range(2)]
    names = [f"queue{number}" for number in range(20)]
    await asyncio.gather(*(stores[n % 2].pause_queue(name, reason=name) for n, name in enumerate(names)))
    assert [queue.reason for queue in await stores[0].queries.list_queues()] == sorted(names)
    for store in stores:
        await store.close()


@pytest.mark.parametrize("listens", [False, True])
async def test_a_scheduler_works_with_and_without_a_listen_url(pooled_url: str, empty_url: str, listens: bool):
    sched = otd.Scheduler(pooled_url + (f"&listen_url={quote(empty_url, safe='')}" if listens else ""))

    @sched.job
    async def double(number: int = 0) -> int:
        return number * 2

    async with sched:
        runs = [await sched.submit("double", {"number": n}) for n in range(5)]
        assert [await run.result(timeout="20s") for run in runs] == [0, 2, 4, 6, 8]
