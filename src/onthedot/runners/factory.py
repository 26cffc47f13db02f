"""Makes the runners of a node: one for each kind of task, all for the same host."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from onthedot.model.addresses import Allowed
from onthedot.model.job import Job
from onthedot.model.task import task_name
from onthedot.runners import container_engines
from onthedot.runners.container import ContainerExecutor
from onthedot.runners.coroutine import CoroutineRunner
from onthedot.runners.http import LONGEST, HttpExecutor
from onthedot.runners.io_runner import NOT_RECORDED, IoRunner, Recording
from onthedot.runners.process import ProcessRunner
from onthedot.runners.runner import Host, Runner
from onthedot.runners.task_filler import Fill, as_written
from onthedot.runners.thread import ThreadRunner
from onthedot.settings import Settings

_log = logging.getLogger("onthedot")


def make_runners(
    host: Host,
    application_loop: asyncio.AbstractEventLoop,
    *,
    plain_functions: Callable[[Host], Runner] = ThreadRunner,
    fill: Fill = as_written,
    recording: Recording = NOT_RECORDED,
) -> dict[str, Runner]:
    """Make the runners of handlers, HTTP calls and containers, by kind. The runner of programs is made with the first
    program."""
    settings = host.settings
    http = HttpExecutor(Allowed.of(settings.http_allow), host.clock)
    containers = ContainerExecutor(
        container_engines.find, settings.container_engine, grace=settings.kill_after, mounts=settings.container_mounts
    )
    return {
        "coroutine": CoroutineRunner(host, application_loop),
        "thread": plain_functions(host),
        "process": ProcessRunner(host),
        "http": IoRunner(host, http, longest=LONGEST, fill=fill, recording=recording),
        "container": IoRunner(host, containers, fill=fill, recording=recording),
    }


def warm_up_children(runners: Mapping[str, Runner], jobs: Iterable[Job]) -> None:
    """Start child processes for these jobs, with their modules loaded."""
    for runner in runners.values():
        if isinstance(runner, ProcessRunner):
            runner.warm(list(jobs))


def warm_up_io(runners: Mapping[str, Runner], jobs: Iterable[Job]) -> None:
    """Load the libraries that the HTTP calls and containers of these jobs need."""
    for kind in {task_name(job.task) for job in jobs}:
        runner = runners.get(kind)
        if isinstance(runner, IoRunner):
            runner.warm_up()


def machine_abilities(settings: Settings) -> set[str]:
    """Return what this machine can run besides handlers and programs: HTTP calls, and containers if an engine answers
    and its library is installed. This also starts to remove the containers of dead workers."""
    engine = container_engines.find(settings.container_engine)
    if engine is None:
        return {"http"}
    threading.Thread(target=_sweep, args=(engine,), name="onthedot sweep", daemon=True).start()
    return {"http", "container"}


def _sweep(engine: str) -> None:
    """Remove the containers of dead workers. This may take a while, and nothing waits for it."""
    try:
        removed = container_engines.sweep(engine)
    except container_engines.EngineTrouble as error:
        _log.warning("could not look for containers of dead workers: %s", error)
        return
    for name in removed:
        _log.warning("removed container %s, which a dead worker had left", name[:12])
