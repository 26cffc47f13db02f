"""Helpers of the tests on SQLite: the usual calls, and child processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from onthedot import fault_points
from onthedot.clock import SECOND
from onthedot.ids import RandomIds
from onthedot.model.job import Call, Every, Job, JobRecord
from onthedot.model.run import Lease, NewRun, RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node, Reserved, ReserveRequest

IDS = RandomIds()
SUCCEEDED = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)


def job(name: str = "job", *schedules: Every) -> Job:
    return Job(name=name, task=Call(handler="work"), schedules=schedules)


async def define(store: SqliteStore, name: str = "job") -> JobRecord:
    return (await store.put_job(job(name))).record


async def submit(store: SqliteStore, record: JobRecord, count: int = 1, *, delay: int = 0) -> list[int]:
    due_at = store.clock.now() + delay
    return await store.submit([NewRun(record.id, f"submit:{IDS.token()}", due_at) for _ in range(count)])


async def register(store: SqliteStore, name: str = "node", *, ttl: int = 3600 * SECOND) -> str:
    incarnation = IDS.token()
    await store.register(Node(name, incarnation), ttl=ttl)
    return incarnation


def ask(incarnation: str, seats: int = 1, *, ahead: int = 0) -> ReserveRequest:
    return ReserveRequest(
        incarnation,
        IDS.leases(seats + ahead),
        seats,
        ahead,
        horizon=60 * SECOND if ahead else 0,
        tasks=frozenset({"call:work"}),
    )


async def reserve(store: SqliteStore, incarnation: str, seats: int = 1) -> Reserved:
    return await store.reserve(ask(incarnation, seats))


def finished(store: SqliteStore, lease: Lease, verdict: Verdict = SUCCEEDED) -> Finish:
    now = store.clock.now()
    return Finish(lease, verdict, now, now)


def start(module: str, *arguments: object, crash_at: str = "") -> subprocess.Popen[str]:
    """Start `python -m module …` with a crash point."""
    environment = {key: value for key, value in os.environ.items() if key != fault_points.VARIABLE}
    if crash_at:
        environment[fault_points.VARIABLE] = crash_at
    root = Path(__file__).parents[3]
    environment["PYTHONPATH"] = os.pathsep.join([str(root / "src"), str(root)])
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def ended(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end of a child. Returns its exit code, output and errors."""
    out, err = await asyncio.to_thread(child.communicate, timeout=50)
    return child.returncode, out, err
