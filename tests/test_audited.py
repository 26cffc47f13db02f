"""Every change through the library, HTTP or a command writes an audit entry with who, what and from where."""

from __future__ import annotations

import asyncio
import base64
import os
import pwd
import shlex
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import onthedot as otd
from onthedot.access import audit, audit_recorder, keys
from onthedot.access.audit import Recorded
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.blocking import BlockingScheduler
from onthedot.cli.main import cli
from onthedot.model.errors import KeyConflict
from onthedot.model.host_port import Listen
from onthedot.operations.open_verbs import opened
from onthedot.runners.secrets import Keys, StoredSecrets
from onthedot.server.http_server import HttpServer
from onthedot.server.permissions import ROUTE_PERMISSIONS
from onthedot.settings import Settings
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests import audited
from tests.audited import COMMANDS, ROUTES, VERBS, Command
from tests.server.kit import served
from tests.server.sample_data import fill
from tests.server.test_matrix import ask as ask_route
from tests.upgrades import dumps
from tests.upgrades.test_old_stores import STORES

USER = pwd.getpwuid(os.getuid()).pw_name
RANGE = ("2026-01-01T00:00Z", "2026-01-01T03:00Z")
NAP = otd.Job(
    name="nap", task=otd.Sleep(duration=timedelta(0)), schedules=(otd.every("1h"),), labels=frozenset({"tape"})
)
"""Its runs wait, because no node has the label."""


# ── every operation has an expectation ───────────────────────────────────────────────────────────────────────


def public(door: type) -> set[str]:
    return {name for name in dir(door) if not name.startswith("_") and callable(getattr(door, name))}


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


def test_every_verb_has_an_expected_entry():
    properties = {"hooks"}
    assert public(otd.Scheduler) | public(BlockingScheduler) | properties == set(VERBS)


def test_every_route_that_may_change_something_has_an_expected_entry():
    assert {line for line in ROUTE_PERMISSIONS if not line.startswith("GET ")} == set(ROUTES)


def test_every_command_has_an_expected_entry():
    assert set(commands(cli)) == set(COMMANDS)


def changing(table: dict[str, Any]) -> list[str]:
    return [name for name, expected in table.items() if not isinstance(expected, str)]


# ── the library ──────────────────────────────────────────────────────────────────────────────────────────────


async def make_dead_run(verbs: Any) -> int:
    run = await verbs.submit("fails")
    with pytest.raises(otd.RunFailed):
        await run.result(timeout="20s")
    number: int = run.id
    return number


async def _apply(sched: otd.Scheduler) -> None:
    await sched.apply([NAP, replace(NAP, name="other")], source="a")
    await sched.apply([replace(NAP, priority="high")], source="a", prune=True)


async def _put(sched: otd.Scheduler) -> None:
    await sched.put(replace(NAP, name="other"))
    await sched.put(replace(NAP, name="other", priority="high"))
    await sched.put(replace(NAP, name="other", priority="high"))  # the same definition: no change


async def _drain(sched: otd.Scheduler) -> None:
    [node] = await sched.list_nodes()
    await sched.drain_node(node.id)
    await sched.drain_node(node.id, draining=False)


async def _resume(sched: otd.Scheduler) -> None:
    await sched.resume("nap", dry_run=True)
    await sched.resume("nap")


async def _cancel(sched: otd.Scheduler) -> None:
    run = await sched.list_runs("nap")
    await sched.cancel(run[0].id)
    await sched.cancel(run[0].id)  # it has ended: no change
    await sched.cancel(10**9)


async def _retry(sched: otd.Scheduler) -> None:
    [ended] = [run for run in await sched.list_runs("build") if run.state == "cancelled"]
    await sched.retry_run(ended.id)


async def _replay(sched: otd.Scheduler) -> None:
    [dead] = await sched.dead_runs()
    await sched.replay(dead.id)
    await sched.replay(dead.id)


async def _replay_many(sched: otd.Scheduler) -> None:
    await sched.replay_many(dry_run=True)
    await sched.replay_many()


async def _discard(sched: otd.Scheduler) -> None:
    [dead] = await sched.dead_runs()
    await sched.discard([dead.id, 10**9], why="known")


CALLS: dict[str, Callable[[otd.Scheduler], Awaitable[Any]]] = {
    "apply": _apply,
    "backfill": lambda sched: sched.backfill("nap", *RANGE),
    "cancel": _cancel,
    "discard": _discard,
    "drain_node": _drain,
    "move_next": lambda sched: sched.move_next("nap", to="+30m"),
    "pause": lambda sched: sched.pause("nap"),
    "pause_queue": lambda sched: sched.pause_queue("mail"),
    "put": _put,
    "remove": lambda sched: sched.remove("nap"),
    "replay": _replay,
    "replay_many": _replay_many,
    "resume": _resume,
    "resume_queue": lambda sched: sched.resume_queue("mail"),
    "retry_run": _retry,
    "set_shards": lambda sched: sched.set_shards(2),
    "share_queue": lambda sched: sched.share_queue("mail", {"gold": 3}),
    "skip_next": lambda sched: sched.skip_next("nap"),
    "submit": lambda sched: sched.submit("nap"),
    "submit_many": lambda sched: sched.submit_many(["nap", "nap"]),
    "trigger": lambda sched: sched.trigger("nap"),
}
TIMES = {"apply": 3, "put": 2, "drain_node": 2}
"""The number of entries, if it is not one."""


def program(store: Store | str) -> otd.Scheduler:
    sched = otd.Scheduler(store, settings=otd.Settings(poll_every=100_000, programs=False))
    sched.add(otd.Job(name="build", task=otd.Command(script="true"), labels=frozenset({"tape"})))

    @sched.job
    async def fails() -> None:
        raise ConnectionError("no answer")

    return sched


def is_by_this_program(entry: Recorded) -> bool:
    source = f"program on {socket.gethostname()}, uid {os.getuid()}"
    return (entry.who_kind, entry.who_name, entry.source) == ("local", USER, source)


async def read_all(store: Store) -> list[Recorded]:
    return await audit.read(store, limit=1000)


async def prepare(store: Store) -> None:
    """Make the job and the runs that the verbs need, without audit entries."""
    async with asyncio.timeout(20):
        there = opened_on(store)
        await there.put(NAP)
        await there.submit("nap")
        await there.cancel(await there.submit("build"))


def opened_on(store: Store) -> Any:
    from onthedot.clock import SystemClock
    from onthedot.operations.open_verbs import OpenStore

    return OpenStore(store, SystemClock(), Settings(), None).verbs()


@pytest.mark.parametrize("verb", changing({name: VERBS[name] for name in VERBS if name != "start"}))
async def test_a_verb_writes_its_entry(verb: str):
    async with program(MemoryStore()) as sched:  # the store may be used only in the engine's thread
        await sched._running().on_store(prepare)
        await make_dead_run(sched)
        before = await sched._running().on_store(read_all)
        await CALLS[verb](sched)
        entries = (await sched._running().on_store(read_all))[len(before) :]
        assert {entry.verb for entry in entries} == VERBS[verb]
        assert len(entries) == TIMES.get(verb, 1)
        assert all(is_by_this_program(entry) for entry in entries)
        assert all(entry.object and "?" not in entry.object for entry in entries)


async def test_jobs_of_a_program_are_recorded_once_at_its_start():
    store = MemoryStore()
    for _ in range(2):
        async with program(store):
            pass
    entries = await audit.read(store)
    assert [(entry.verb, entry.object) for entry in entries] == [
        ("jobs.create", "job/default/build"),
        ("jobs.create", "job/default/fails"),
    ]
    assert all(is_by_this_program(entry) for entry in entries)
    changed = otd.Scheduler(store, settings=otd.Settings(programs=False))
    changed.add(otd.Job(name="build", task=otd.Command(script="true"), priority="high"))
    async with changed:
        pass
    entry = (await audit.read(store))[-1]
    assert (entry.verb, entry.before.get("priority"), entry.after["priority"]) == ("jobs.edit", None, "high")


def test_the_blocking_scheduler_writes_the_same_entries():
    store = MemoryStore()
    with BlockingScheduler(program(store)) as blocking:
        blocking.pause("build")
        blocking.submit("build")
    entries = asyncio.run(audit.read(store))
    assert [entry.verb for entry in entries][-2:] == ["jobs.pause", "runs.submit"]
    assert all(is_by_this_program(entry) for entry in entries)


# ── submits, summed up ───────────────────────────────────────────────────────────────────────────────────────


def submits(entries: list[Recorded]) -> list[Any]:
    return [entry.after for entry in entries if entry.verb == "runs.submit"]


async def test_submits_within_a_minute_make_two_entries():
    """The first submit is recorded with its run. Later ones are counted, and recorded at the latest when it stops."""
    store = MemoryStore()
    async with program(store) as sched:
        run = await sched.submit("build")
        assert submits(await audit.read(store)) == [{"run_id": run.id}]
        for _ in range(5):
            await sched.submit("build")
        await sched.submit_many(["build"] * 700)
        assert len(submits(await audit.read(store))) == 1
        await sched.submit_many(["fails", "build", "fails"], delay="1h")
        assert submits(await audit.read(store))[1:] == [{"runs": 2}]
    assert submits(await audit.read(store))[2:] == [{"runs": 706}]


async def test_counted_submits_are_recorded_after_a_minute(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    async with program(store) as sched:
        await sched.submit("build")
        await sched.submit("build")
        monkeypatch.setattr(audit_recorder, "SUM_UP_EVERY", 0)
        await sched.submit("build")
        assert [told.get("runs") for told in submits(await audit.read(store))] == [None, 2]


async def test_a_refused_submit_does_not_change_the_count(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    async with program(store) as sched:
        await sched.put(
            otd.Job(
                name="a",
                task=otd.Command(script="true"),
                params=(otd.Param(name="n"),),
                labels=frozenset({"tape"}),
            )
        )
        await sched.submit("a", {"n": "1"}, key="k")
        await sched.submit("a", {"n": "2"})
        with pytest.raises(KeyConflict):
            await sched.submit("a", {"n": "2"}, key="k")
        with monkeypatch.context() as patch:
            patch.setattr(audit_recorder, "SUM_UP_EVERY", 0)
            with pytest.raises(KeyConflict):  # its write would also have recorded the count
                await sched.submit("a", {"n": "2"}, key="k")
    assert [told.get("runs") for told in submits(await audit.read(store))] == [None, 1]


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("line", changing({line: ROUTES[line] for line in ROUTES if line != "POST /api/v1/logout"}))
async def test_a_route_writes_its_entry(line: str, tmp_path: Path):
    async with served() as server:
        known = await fill(server.there, tmp_path)
        before = await audit.read(server.there.store, limit=1000)
        answer = await ask_route(server, line, "admin", known)
        assert 200 <= answer.status < 300, answer.text
        [entry] = (await audit.read(server.there.store, limit=1000))[len(before) :]
    assert {entry.verb} == ROUTES[line]
    assert (entry.source, bool(entry.request_id)) == ("127.0.0.1", True)
    if line == "POST /api/v1/login":  # the caller has no name before the session exists
        assert entry.after == {"name": "ann", "by": "password"}
    else:
        assert (entry.who_kind, entry.who_name) == ("key", f"admin {entry.who_id}")


async def test_a_logout_writes_its_entry(tmp_path: Path):
    async with served(real=True) as server:
        await fill(server.there, tmp_path)
        body = {"username": "ann", "password": audited.PASSWORD}
        token = (await server.client.post("/api/v1/login", json=body)).json()["token"]
        ended = await server.client.post("/api/v1/logout", headers={"Authorization": f"Bearer {token}"})
        assert ended.is_success
        entry = (await audit.read(server.there.store))[-1]
    assert (entry.verb, entry.who_kind, entry.who_name, entry.source) == ("logout", "session", "ann", "127.0.0.1")


async def test_many_runs_in_one_request_make_an_entry_per_write(tmp_path: Path):
    async with served() as server:
        await fill(server.there, tmp_path)
        headers = server.keys.add(Role.ADMIN) | {"Content-Type": "application/x-ndjson"}
        lines = b'{"job":"nap"}\n' * 1200
        assert (await server.client.post("/api/v1/runs", headers=headers, content=lines)).is_success
        entries = await audit.read(server.there.store, limit=1000)
    assert submits(entries) == [{"runs": 500}, {"runs": 500}, {"runs": 200}]
    assert len({entry.request_id for entry in entries if entry.verb == "runs.submit"}) == 1


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: tidy, schedule: every 1h, run: rm -f *.tmp}]")
    (tmp_path / "crontab").write_text("0 9 * * * /usr/bin/true\n")
    monkeypatch.setenv("OTD_SECRETS_KEY", base64.b64encode(b"k" * 32).decode())
    return tmp_path


def make_store(folder: Path) -> dict[str, int | str]:
    """Make a store with everything that the commands need, and return the names for their arguments."""

    async def make() -> dict[str, int | str]:
        async with opened(f"sqlite:///{folder / 'shop.db'}") as there:
            await StoredSecrets(there.store.documents, Keys.of(os.environ)).set("default", "OLD", "hush")
            return await fill(there, folder)

    return asyncio.run(make()) | {"folder": str(folder)}


def recorded(path: Path) -> list[Recorded]:
    async def read() -> list[Recorded]:
        async with opened(f"sqlite:///{path}") as there:
            return await audit.read(there.store, limit=1000)

    return asyncio.run(read())


def call(name: str, known: dict[str, int | str], where: list[str]) -> Command:
    command = COMMANDS[name]
    assert isinstance(command, Command)
    arguments = shlex.split(command.arguments.format(**known))
    given = [] if "--db" in arguments else where
    result = CliRunner().invoke(cli, [*name.split(), *arguments, *given], input=command.typed, prog_name="onthedot")
    assert result.exit_code == 0, result.output
    return command


@pytest.mark.parametrize("name", [name for name, expected in COMMANDS.items() if isinstance(expected, Command)])
def test_a_command_on_a_store_writes_its_entry(name: str, folder: Path):
    if name == "store migrate":
        dumps.load_sqlite(next(STORES.glob("*.sqlite.sql")).read_text(), folder / "old.db")
    command = call(name, make_store(folder), ["--db", str(folder / "shop.db")])
    entry = recorded(folder / ("old.db" if "old.db" in command.arguments else "shop.db"))[-1]
    source = f"command line on {socket.gethostname()}, uid {os.getuid()}"
    assert (entry.verb, entry.who_kind, entry.who_name, entry.source) == (command.verb, "local", USER, source)
    assert entry.object
    assert "hush" not in str(entry)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in COMMANDS.items() if isinstance(one, Command) and one.server])
def test_a_command_on_a_server_writes_its_entry(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The server records the key that was used, and the address of the caller."""
    known, path = make_store(folder), folder / "shop.db"

    async def issue() -> str:
        async with opened(f"sqlite:///{path}") as there:
            return (await keys.issue(there.store, "ci", Grant(role=Role.ADMIN))).text

    monkeypatch.setenv("ONTHEDOT_KEY", asyncio.run(issue()))
    serving = HttpServer(
        f"sqlite:///{path}", Settings(), Listen(port=0), knows=lambda there: Authenticator(there.store, there.clock)
    )
    serving.start()
    try:
        command = call(name, known, ["--store", serving.url])
    finally:
        serving.stop()
    [entry] = recorded(path)
    assert (entry.verb, entry.who_kind, entry.who_name, entry.source) == (command.verb, "key", "ci", "127.0.0.1")
