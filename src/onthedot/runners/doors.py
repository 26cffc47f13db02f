"""The doors of a node: what it can do that is neither a handler nor a program of its own machine."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping
from functools import partial

from onthedot.clock import Clock
from onthedot.model.addresses import Allowed
from onthedot.model.job import Job
from onthedot.model.task import task_name
from onthedot.runners import container_engines
from onthedot.runners.attempt import Ended, Runner, Started
from onthedot.runners.container import ContainerDoor
from onthedot.runners.http import LONGEST, HttpDoor
from onthedot.runners.io_runner import NOT_RECORDED, ApartRunner, Recording
from onthedot.runners.task_filling import Fill, as_written
from onthedot.settings import Settings

_log = logging.getLogger("onthedot")


def offered(settings: Settings) -> set[str]:
    """What this machine can do: HTTP calls always, containers if an engine answers and its library is there. What dead
    workers have left in that is removed meanwhile."""
    engine = container_engines.find(settings.container_engine)
    if engine is None:
        return {"http"}
    threading.Thread(target=_sweep, args=(engine,), name="onthedot sweep", daemon=True).start()
    return {"http", "container"}


def _sweep(engine: str) -> None:
    """Remove what dead workers have left. It may take a while, and nobody waits for it."""
    try:
        removed = container_engines.sweep(engine)
    except container_engines.EngineTrouble as error:
        _log.warning("containers of dead workers are not looked for: %s", error)
        return
    for name in removed:
        _log.warning("removed container %s, which a dead worker had left", name[:12])


def warm_up(runners: Mapping[str, Runner], jobs: Iterable[Job]) -> None:
    """Have those doors ready that a program's own jobs go through."""
    for kind in {task_name(job.task) for job in jobs}:
        runner = runners.get(kind)
        if isinstance(runner, ApartRunner):
            runner.warm_up()


def runners(
    engine_loop: asyncio.AbstractEventLoop,
    clock: Clock,
    settings: Settings,
    *,
    ended: Ended,
    started: Started | None,
    fill: Fill = as_written,
    recording: Recording = NOT_RECORDED,
) -> dict[str, Runner]:
    """One runner for each door, by kind."""
    calls = HttpDoor(Allowed.of(settings.http_allow), clock)
    containers = ContainerDoor(
        container_engines.find, settings.container_engine, grace=settings.kill_after, mounts=settings.container_mounts
    )
    make = partial(
        ApartRunner,
        engine_loop=engine_loop, clock=clock, ended=ended, started=started, fill=fill, recording=recording,
    )  # fmt: skip
    return {"http": make(calls, longest=LONGEST), "container": make(containers)}
