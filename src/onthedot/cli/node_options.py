"""What `onthedot worker` and `onthedot server` have in common: a program's node, with some settings given here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onthedot.cli.errors import BadInput
from onthedot.cli.options import DEFAULT_STORE, read_length, store_url, with_debug, with_json, with_output, with_store
from onthedot.cli.up import check_node_id, read_lease

if TYPE_CHECKING:
    from onthedot.cli.api import ApiGiven
    from onthedot.cli.stopping import Stopping
    from onthedot.cli.up import Beside
    from onthedot.model.host_port import Listen
    from onthedot.scheduler import Scheduler
    from onthedot.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Given:
    """What was said on the command line; None: what the program says, or else the default."""

    store: str | None
    db: str | None
    node_id: str | None
    lease: int | None
    grace: int | None
    duration: int | None
    as_json: bool
    with_parent: bool = False
    roles: tuple[str, ...] = ()
    seats: int | None = None
    queues: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    output: str | None = None
    metrics: Listen | None = None
    allow_hosts: tuple[str, ...] = ()
    sign_on: str | None = None
    sign_on_client: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    quota_jobs: int | None = None
    quota_runs: int | None = None
    quota_submits: int | None = None

    def settings(self, own: Settings) -> Settings:
        """The program's own settings, and what was said here."""
        names = {field.name for field in fields(own)} & {field.name for field in fields(self)}
        given = {name: getattr(self, name) for name in names if getattr(self, name) not in (None, ())}
        changed = replace(own, **given, programs=True if own.programs is None else own.programs)
        return changed if self.lease is None else changed.with_leases(self.lease)

    def as_arguments(self) -> list[str]:
        """All of it but what each has for itself (name, metrics), for a process that is to do the same."""
        lengths = {"--lease": self.lease, "--grace": self.grace, "--for": self.duration}
        lists = {"--roles": self.roles, "--queues": self.queues, "--labels": self.labels}
        said: dict[str, str | None] = {"--store": self.store, "--db": self.db, "--output": self.output}
        said |= {name: None if length is None else f"{length}us" for name, length in lengths.items()}
        said |= {name: ",".join(names) if names else None for name, names in lists.items()}
        said["--seats"] = None if self.seats is None else str(self.seats)
        arguments = [word for name, value in said.items() if value is not None for word in (name, value)]
        return [*arguments, "--json"] if self.as_json else arguments


def with_node(command: F) -> F:
    """The options of every node; they come to the command as the fields of `Given`."""
    command = with_debug(command)
    command = with_json("one JSON object per event and line")(command)
    command = click.option("--with-parent", is_flag=True, hidden=True)(command)
    command = click.option(
        "--for", "duration", metavar="LENGTH", callback=read_length,
        help="Drain and stop after this time.  [default: on Ctrl-C]",
    )(command)  # fmt: skip
    command = click.option(
        "--grace", metavar="LENGTH", callback=read_length, help="How long a drain waits for attempts.  [default: 30s]"
    )(command)
    command = click.option(
        "--lease", metavar="LENGTH", callback=read_lease,
        help="How long the node may be silent before others take over its runs.  [default: 15s]",
    )(command)  # fmt: skip
    command = click.option("--node-id", metavar="NAME", callback=check_node_id, help="Its name.  [default: made up]")(
        command
    )
    return with_store(with_output(command))


def run(
    program: str | None, given: Given, *, plain: bool = True, samples: bool = False, api: ApiGiven | None = None
) -> None:
    """Run one node, of a program or with sample jobs, and end with its exit code."""
    import asyncio
    import sys

    from onthedot.cli.up import run_node, shape_of

    # Measured: beside threads that are busy in Python, the engine's thread wakes four times sooner.
    sys.setswitchinterval(0.0005)
    scheduler = _scheduler(program, given)
    if samples:
        from onthedot.cli.samples import add_samples

        add_samples(scheduler)
    url = scheduler.store
    if not isinstance(url, str):
        raise BadInput("PROGRAM: expected a scheduler with the URL of a store, got a store as an object; give --store")
    shape = shape_of(as_json=given.as_json, plain=plain)
    watch = _end_with_parent if given.with_parent else None
    beside = _beside(scheduler, url, given, api)
    code = asyncio.run(run_node(scheduler, url, given.duration, shape, on_signals=watch, beside=beside))
    if code:
        click.get_current_context().exit(code)


def _beside(scheduler: Scheduler, url: str, given: Given, api: ApiGiven | None) -> list[Beside]:
    """What this process does besides; both tell what its node has counted."""
    from onthedot.cli.api import Api
    from onthedot.cli.metrics import Metrics
    from onthedot.observe.counters import Counters

    counters = Counters()
    beside: list[Beside] = []
    if api is not None and not api.off:
        beside.append(Api(api, url, scheduler.settings, counters))
    if given.metrics is not None:
        beside.append(Metrics(counters, given.metrics))
    if beside:
        scheduler.subscribe(counters)
    return beside


def _scheduler(program: str | None, given: Given) -> Scheduler:
    from onthedot.cli.program import load_program
    from onthedot.scheduler import Scheduler

    scheduler = load_program(program) if program is not None else Scheduler(DEFAULT_STORE)
    if given.store is not None or given.db is not None or scheduler.store == DEFAULT_STORE:
        scheduler.store = store_url(given.store, given.db)
    scheduler.settings = given.settings(scheduler.settings)
    return scheduler


def _end_with_parent(stopping: Stopping) -> None:
    """Drain when standard input ends: it is the hand of the process that has started this one."""
    import os
    import threading

    def watch() -> None:
        while os.read(0, 1024):  # not by sys.stdin: its lock would be in the way of the interpreter's end
            continue
        stopping.drain()

    threading.Thread(target=watch, name="onthedot parent", daemon=True).start()


def read_names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """The callback of options that take several names, with commas between them."""
    if value is None:
        return None
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter(f"expected names with commas between them, got {value!r}", ctx, param)
    return names


def read_roles(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """The callback of `--roles`."""
    roles = read_names(ctx, param, value) or ()
    if not set(roles) <= {"planner", "worker"}:
        raise click.BadParameter(f"expected 'planner', 'worker' or both with a comma, got {value!r}", ctx, param)
    return roles
