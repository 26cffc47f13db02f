"""Fills a store with one of each: jobs, runs, output, a node, keys and users."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import onthedot as otd
from onthedot.access import keys, sessions, users
from onthedot.access.permissions import Grant, Role
from onthedot.access.users import Passwords
from onthedot.model.run import RunState
from onthedot.operations.open_verbs import OpenStore
from onthedot.output.records import Record
from tests.server.sample_requests import PASSWORD
from tests.server.worker import Worker

HOURLY = (otd.every("1h"),)
NAP = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), owner="ann", schedules=HOURLY)
ASLEEP = otd.Job(name="asleep", task=otd.Sleep(duration=timedelta(0)), owner="ann", schedules=HOURLY)
MAIL = otd.Job(name="mail", task=otd.Sleep(duration=timedelta(0)), owner="ann")
GREET = otd.Job(name="greet", task=otd.Command(argv=("echo", "hello")), owner="ann")
CHEAP = Passwords(rounds=1, kibibytes=8, lanes=1)


async def fill(there: OpenStore, folder: Path) -> dict[str, int | str]:
    """Put one of each into a store, all of it ann's. Return the ids that requests need."""
    verbs = there.verbs()
    for job in (NAP, ASLEEP, MAIL, GREET):
        await verbs.put(job)
    await verbs.pause("asleep")
    ann = await users.create(there.store, "ann", PASSWORD, Grant(role=Role.VIEWER), passwords=CHEAP)
    session = await sessions.open_session(there.store, "ann", user="ann", epoch=ann.epoch)
    issued = await keys.issue(there.store, "old", Grant(role=Role.VIEWER))
    worker = Worker(there, folder)
    dead = await verbs.submit("greet")
    await worker.end(await worker.take_one(), RunState.DEAD, error="it would not")
    ended = await verbs.submit("mail")
    lease = await worker.take_one()
    await worker.keep(lease, [Record(1, "out", "", "said\n")], [("report.csv", b"a,b\n")])
    await worker.end(lease)
    running = await verbs.submit("greet")
    await worker.take_one()
    numbers = {record.job.name: record.id for record in await verbs.list_jobs()}
    return {
        "key": issued.key.id, "session": session.id, "job_id": numbers["mail"],
        "dead": dead.id, "ended": ended.id, "running": running.id,
    }  # fmt: skip
