"""`onthedot store migrate | check`: migrates a store, or checks it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, replace

import click

from onthedot.cli.audit import record_change
from onthedot.cli.connect import read_store
from onthedot.cli.errors import Command, Group, on_this_store
from onthedot.cli.options import store_url, with_debug, with_json, with_store
from onthedot.clock import SystemClock
from onthedot.model.errors import StoreUnusable
from onthedot.model.run import RunState
from onthedot.observe.formats import count, plain
from onthedot.stores.addresses import shown_url
from onthedot.stores.connect import open_store, sqlite_path
from onthedot.stores.protocol import Store
from onthedot.stores.queries import RunFilter, all_runs
from onthedot.stores.values import Node


@click.group(cls=Group)
def store() -> None:
    """Migrate a store, or check it.

    \b
    Examples:
      onthedot store migrate --store sqlite:///shop.db
      onthedot store check
    """


@store.command(cls=Command, short_help="Migrate the tables to this version, or create them.")
@with_store
@with_json("one JSON object")
@with_debug
def migrate(store: str | None, db: str | None, as_json: bool) -> None:
    """Migrate the store's tables to this version, or create them if there are none.

    A node does the same when it starts. Use this command to migrate once, before a deployment. Several at a time are
    safe: one migrates, and the others find it done. A store of a newer version is not changed.

    \b
    Examples:
      onthedot store migrate
      onthedot store migrate --store sqlite:///shop.db --json
    """
    url = store_url(store, db)
    _refuse_memory(url)
    change = asyncio.run(_migrate(url))
    if as_json:
        click.echo(json.dumps({"store": shown_url(url), "change": change}, indent=2))
    else:
        words = {"none": "is up to date", "migrated": "was brought up to date", "made": "was made"}
        click.echo(f"{plain(shown_url(url))} {words[change]}")


async def _migrate(url: str) -> str:
    path = sqlite_path(url)
    is_new = path is not None and not (path.exists() and path.stat().st_size)
    change = "made" if is_new else "none"
    if not is_new:
        try:
            await (await open_store(url, read_only=True)).close()
        except StoreUnusable:  # an older schema, or no store: opening it for writing shows which
            change = "migrated"
    store = await open_store(url)
    try:
        if change == "migrated":
            await record_change(store, "store.migrate", "store")
    finally:
        await store.close()
    return change


@store.command(cls=Command, short_help="Check the store, without changing it.")
@with_store
@with_json("one JSON object")
@with_debug
def check(store: str | None, db: str | None, as_json: bool) -> None:
    """Check the store: show what is in it, and what is wrong. It only reads.

    Exit codes: 0 if nothing is wrong; 1 if there is a problem, such as due runs without a node that plans or works; 2
    if the store cannot be used.

    \b
    Examples:
      onthedot store check
      onthedot store check --json | jq .problems
    """
    url = store_url(store, db)
    found = read_store(url, _check)
    found = replace(found, problems=[on_this_store(problem) for problem in found.problems])
    if as_json:
        click.echo(json.dumps({"store": shown_url(url)} | asdict(found), indent=2))
    else:
        _echo(shown_url(url), found)
    if found.problems:
        click.get_current_context().exit(1)


@dataclass(frozen=True)
class Checked:
    """The result of a check of a store."""

    jobs: int
    runs: dict[str, int]  # by state
    overdue: int  # runs that should have started a minute ago
    nodes: int  # living nodes
    planners: int
    workers: int
    leads: str  # the leading node; empty: none
    problems: list[str]


_LATE = 60_000_000  # µs after which a due run counts as overdue
_MOST = 10_000  # the most overdue runs that are counted


async def _check(store: Store) -> Checked:
    now = SystemClock().now()
    jobs = await store.queries.list_jobs()
    runs = await store.queries.count_runs()
    waiting = RunFilter(states=frozenset({RunState.SCHEDULED, RunState.RESERVED}), until=now - _LATE)
    overdue = len(await all_runs(store.queries, waiting, _MOST))  # of all namespaces
    living = await store.queries.list_nodes(living=True, now=now)
    terms = [term for term in await store.queries.list_terms() if term.until > now]
    planners = [node for node in living if "planner" in node.roles]
    workers = [node for node in living if "worker" in node.roles]
    problems = []
    if jobs and living and not planners:
        problems.append("no living node plans: no new runs are made; start 'onthedot server'")
    if jobs and living and not workers:
        problems.append("no living node works: nothing is executed; start 'onthedot worker'")
    if planners and not terms:
        problems.append(_without_leader(planners))
    if overdue:
        at_least = "at least " if overdue >= _MOST else ""
        problems.append(f"{at_least}{count(overdue, 'run')} due for more than a minute, and not started")
    names = {node.incarnation: plain(node.id) for node in living}
    leads = names.get(terms[0].incarnation, "") if terms else ""
    by_state = {str(state): number for state, number in sorted(runs.items())}
    return Checked(len(jobs), by_state, overdue, len(living), len(planners), len(workers), leads, problems)


def _without_leader(planners: list[Node]) -> str:
    """Return why no node leads."""
    draining = [plain(node.id) for node in planners if node.draining]
    if len(draining) < len(planners):
        return "no node leads, though there are planners: see 'onthedot nodes' and their clocks"
    are = "planner is" if len(draining) == 1 else "planners are"
    undo = f"end a drain with 'node drain {draining[0]} --undo'"
    return f"no node leads: the only {are} draining ({', '.join(draining)}); start another one, or {undo}"


def _echo(url: str, found: Checked) -> None:
    click.echo(f"store     {plain(url)}, tables up to date")
    click.echo(f"jobs      {found.jobs}")
    click.echo(f"runs      {', '.join(f'{number} {state}' for state, number in found.runs.items()) or 'none'}")
    nodes = f"{count(found.nodes, 'node')} living, {count(found.planners, 'planner')}, {count(found.workers, 'worker')}"
    click.echo(f"nodes     {nodes}{f'; {found.leads} leads' if found.leads else ''}")
    for problem in found.problems:
        click.echo(f"problem   {problem}")
    if not found.problems:
        click.echo("nothing is wrong")


def _refuse_memory(url: str) -> None:
    if url.startswith("memory:"):
        raise click.UsageError("store: expected one that outlives this command, got 'memory:'; use sqlite:///FILE")
