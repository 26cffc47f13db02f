"""`onthedot up | worker | server`: the commands that run a node, and their options."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import (
    read_length,
    with_debug,
    with_json,
    with_output,
    with_store,
)
from onthedot.cli.program import load_program
from onthedot.model.errors import DefinitionError
from onthedot.model.host_port import Listen, read_listen

if TYPE_CHECKING:
    from onthedot.settings import Settings


F = TypeVar("F", bound=Callable[..., Any])


# ── options of every node ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """The options of a node. None: the value of the program, or else the default."""

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
        """The program's settings, changed by these options."""
        names = {field.name for field in fields(own)} & {field.name for field in fields(self)}
        given = {name: getattr(self, name) for name in names if getattr(self, name) not in (None, ())}
        changed = replace(own, **given, programs=True if own.programs is None else own.programs)
        return changed if self.lease is None else changed.with_leases(self.lease)

    def as_arguments(self) -> list[str]:
        """These options as arguments for a child process, without those that differ for each (name, metrics)."""
        lengths = {"--lease": self.lease, "--grace": self.grace, "--for": self.duration}
        lists = {"--roles": self.roles, "--queues": self.queues, "--labels": self.labels}
        said: dict[str, str | None] = {"--store": self.store, "--db": self.db, "--output": self.output}
        said |= {name: None if length is None else f"{length}us" for name, length in lengths.items()}
        said |= {name: ",".join(names) if names else None for name, names in lists.items()}
        said["--seats"] = None if self.seats is None else str(self.seats)
        arguments = [word for name, value in said.items() if value is not None for word in (name, value)]
        return [*arguments, "--json"] if self.as_json else arguments


def with_node(command: F) -> F:
    """The options of every node; the command receives them as the fields of `NodeOptions`."""
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
        help="How long the node may miss heartbeats before others take over its runs.  [default: 15s]",
    )(command)  # fmt: skip
    command = click.option(
        "--node-id", metavar="NAME", callback=check_node_id, help="The node's name.  [default: generated]"
    )(command)
    return with_store(with_output(command))


def run(
    program: str | None, given: NodeOptions, *, plain: bool = True, samples: bool = False, api: ApiOptions | None = None
) -> None:
    """Run one node, of a program or with sample jobs, and exit with its code."""
    from onthedot.cli.node_process.node import run_program  # with the whole engine, which `--help` does not need

    code = run_program(program, given, plain=plain, samples=samples, api=api)
    if code:
        click.get_current_context().exit(code)


def read_names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """The callback of options that take several names, separated by commas."""
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


_NODE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}")
_SHORTEST_LEASE = 1_000_000


def check_node_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of options that name a node."""
    if value is not None and not _NODE_ID.fullmatch(value):
        expected = "expected letters, digits, '_', '-', '.' or ':', at most 100 of them"
        raise click.BadParameter(f"{expected}, got {value!r}", ctx, param)
    return value


def read_lease(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """The callback of options that give the length of a lease."""
    lease = read_length(ctx, param, value)
    if lease is not None and lease < _SHORTEST_LEASE:
        raise click.BadParameter("expected at least 1s: a shorter lease ends whenever the machine is busy", ctx, param)
    return lease


# ── options of the HTTP API and of metrics ───────────────────────────────────────────────────────────────────────


_QUOTAS = {
    "submits": "How many runs one owner may submit in a minute.  [default: any number]",
    "runs": "How many runs of one owner's jobs may wait or run.  [default: any number]",
    "jobs": "How many jobs one owner may have.  [default: any number]",
}


class ApiOptions(NamedTuple):
    """The options of the HTTP API. Without `listen` it uses the usual port, or else any free one."""

    listen: str | None = None
    off: bool = False
    insecure: bool = False
    link: bool = False  # show a link with a one-time token
    terminal: bool = False  # the output is a terminal: only then the link is made and shown


def with_api(command: F) -> F:
    """The options of the HTTP API: `take_api_options` takes some of them, the others are settings."""
    what = "Where the HTTP API listens.  [default: 127.0.0.1:7411, or a free port if that is taken]"
    everybody = "Ask for no key; on this machine only."
    chain = "Serve HTTPS with the certificate chain in this file (PEM).  [default: plain HTTP]"
    private = "The private key of the certificate.  [default: in the same file]"
    hosts = "Also answer requests for this host, such as jobs.example.org; more than once.  [default: where it listens]"
    issuer = "Accept users of this identity provider (OpenID Connect), such as https://example.auth0.com/."
    client = "The client ID of this server at the identity provider.  [with --sign-on]"
    proxy = "A proxy whose X-Forwarded-For is trusted, as an address or network; more than once.  [default: none]"
    command = click.option(
        "--trusted-proxy", "trusted_proxies", metavar="ADDRESS", multiple=True, envvar="ONTHEDOT_TRUSTED_PROXY",
        help=proxy,
    )(command)  # fmt: skip
    for name, quota in _QUOTAS.items():
        variable = f"ONTHEDOT_QUOTA_{name.upper()}"
        option = click.option(f"--quota-{name}", metavar="N", type=click.IntRange(1), envvar=variable, help=quota)
        command = option(command)
    command = click.option("--sign-on-client", metavar="ID", envvar="ONTHEDOT_SIGN_ON_CLIENT", help=client)(command)
    command = click.option("--sign-on", metavar="ISSUER", envvar="ONTHEDOT_SIGN_ON", help=issuer)(command)
    command = click.option("--tls-key", metavar="FILE", envvar="ONTHEDOT_TLS_KEY", help=private)(command)
    command = click.option("--tls-cert", metavar="FILE", envvar="ONTHEDOT_TLS_CERT", help=chain)(command)
    command = click.option(
        "--allow-host", "allow_hosts", metavar="NAME", multiple=True, envvar="ONTHEDOT_ALLOW_HOST", help=hosts
    )(command)
    command = click.option("--insecure", is_flag=True, help=everybody)(command)
    command = click.option("--no-api", is_flag=True, help="Serve no HTTP API.")(command)
    return click.option("--listen", metavar="HOST:PORT", help=what)(command)


def take_api_options(options: dict[str, Any], *, link: bool) -> ApiOptions:
    """Take `--listen`, `--no-api` and `--insecure` out of a command's options."""
    listen, off, insecure = options.pop("listen"), options.pop("no_api"), options.pop("insecure")
    if off and (listen is not None or insecure):
        raise click.UsageError("expected --no-api by itself, got --listen or --insecure beside it; leave one out")
    terminal = sys.stdout.isatty() and not options.get("as_json")
    return ApiOptions(listen, off, insecure, link, terminal)


def read_metrics(ctx: click.Context, param: click.Parameter, value: str | None) -> Listen | None:
    """The callback of `--metrics`."""
    if value is None:
        return None
    if find_spec("prometheus_client") is None:
        raise click.BadParameter("it is not installed (pip install 'onthedot[metrics]')", ctx, param)
    try:
        return read_listen(value, "address")
    except DefinitionError as error:
        raise click.BadParameter(str(error), ctx, param) from None


# ── up ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("program", required=False)
@with_store
@click.option("--node-id", metavar="NAME", callback=check_node_id, help="The node's name.  [default: generated]")
@click.option("--seats", type=click.IntRange(1, 10_000), help="How many attempts run at once.  [default: 64]")
@click.option(
    "--grace", metavar="LENGTH", callback=read_length,
    help="How long a drain waits for attempts to end.  [default: 30s]",
)  # fmt: skip
@click.option(
    "--lease", metavar="LENGTH", callback=read_lease,
    help="How long the node may miss heartbeats before others take over its runs.  [default: 15s]",
)  # fmt: skip
@click.option(
    "--for", "duration", metavar="LENGTH", callback=read_length,
    help="Drain and stop after this time.  [default: on Ctrl-C]",
)  # fmt: skip
@click.option("--plain", is_flag=True, help="Print plain lines, even on a terminal.")
@with_api
@with_json("one JSON object per event and line")
@with_debug
def up(program: str | None, plain: bool, **options: Any) -> None:
    """Run one node that plans and executes PROGRAM's jobs, on its store. Without PROGRAM it runs sample jobs, on an
    SQLite file in the current directory. If that store has jobs of its own, it adds no samples and runs the stored jobs
    that need no handler. PROGRAM is a Python file that defines a scheduler (app.py, or app.py:name if it has several),
    a module (shop.jobs), or a YAML file with jobs that are commands and steps (jobs.yaml). Options override the
    program's settings.

    It serves the HTTP API on this machine. On a terminal it prints a link with a one-time token that signs you in;
    elsewhere it names the command that makes one ('onthedot sessions link').

    It prints what it plans, starts (and how late) and finishes; on a terminal with a live view below. Ctrl-C, SIGTERM
    or SIGHUP drains the node: it takes no new work, attempts end, and it hands over. A second Ctrl-C or SIGTERM stops
    now. After a crash, start it again: runs of the dead node are recovered, and missed slots are caught up or skipped,
    according to each job's policy.

    Exit codes: 0 after a clean drain, or if a signal came before the node had started; 1 if something broke, if
    attempts did not end within --grace or were stopped because the store was out of reach, or if outcomes could not be
    stored; 2 for bad input; 130 if a second signal stopped attempts.

    \b
    Examples:
      onthedot up
      onthedot up app.py
      onthedot up jobs.yaml
      onthedot up --db /tmp/try.db --for 10s
      onthedot up --json | jq 'select(.event == "AttemptEnded")'
    """
    api = take_api_options(options, link=True)
    run(program, NodeOptions(roles=("planner", "worker"), **options), plain=plain, samples=program is None, api=api)


# ── worker ───────────────────────────────────────────────────────────────────────────────────────────────────────


MOST_PROCESSES = 256


@click.command(cls=Command)
@click.argument("program", required=False)
@click.option(
    "--processes", type=click.IntRange(1, MOST_PROCESSES), default=1, show_default=True,
    help="How many nodes to run, each in its own process.",
)  # fmt: skip
@click.option(
    "--seats", type=click.IntRange(1, 10_000), help="How many attempts run at once, in each process.  [default: 64]"
)
@click.option(
    "--queues", metavar="NAMES", callback=read_names,
    help="The queues that it serves, such as a,b.  [default: 'default', and those of PROGRAM's jobs]",
)  # fmt: skip
@click.option(
    "--labels", metavar="NAMES", callback=read_names, help="Labels that jobs can require, such as gpu,region=eu."
)
@click.option(
    "--roles", metavar="ROLES", default="worker", show_default=True, callback=read_roles,
    help="'worker', or 'planner,worker' to plan as well.",
)  # fmt: skip
@click.option(
    "--metrics", metavar="HOST:PORT", callback=read_metrics,
    help="Serve metrics for Prometheus at /metrics, without a key.  [default: nowhere]",
)  # fmt: skip
@with_node
def worker(program: str | None, processes: int, **options: Any) -> None:
    """Execute runs of stored jobs. Without PROGRAM it executes jobs that need no handler: commands, steps, HTTP calls
    and containers. With PROGRAM it also executes its handlers. PROGRAM is a Python file that defines a scheduler
    (app.py, or app.py:name if it has several), a module (shop.jobs), or a YAML file with jobs (jobs.yaml). Its jobs are
    stored. Its store and settings apply unless options override them.

    Another node has to plan: 'onthedot server', another program, or this one with --roles planner,worker. With
    --processes each process is a node (NAME-1, NAME-2, …). A node that dies is started again. All nodes end when this
    command ends, even if it is killed. Ctrl-C or SIGTERM drains all of them; a second one stops now. Each node serves
    metrics one port above the node before it.

    Exit codes are those of 'onthedot up'; of several processes, the highest.

    \b
    Examples:
      onthedot worker
      onthedot worker --store postgresql://localhost/jobs --queues default,mail
      onthedot worker app.py
      onthedot worker jobs.yaml --store sqlite:///shop.db
      onthedot worker app.py --processes 4 --seats 32
      onthedot worker app.py --metrics 127.0.0.1:9411
      onthedot worker shop.jobs:sched --queues mail,reports --labels gpu
    """
    given = NodeOptions(**options)
    if processes == 1:
        run(program, given)
        return
    if given.metrics is not None and given.metrics.port + processes > 65_536:
        told = f"expected a port with room for {processes} processes above it, got {given.metrics.port}"
        raise click.BadParameter(told, param_hint="--metrics")
    from onthedot.cli.node_process.processes import WorkerProcesses

    if program is not None:
        load_program(program)  # so that an error is printed once, not by each process
    arguments = ["worker", *([program] if program is not None else []), *given.as_arguments()]
    own = partial(_own_metrics, given.metrics)
    family = WorkerProcesses(arguments, given.node_id, processes, as_json=given.as_json, own=own)
    code = family.run()
    if code:
        click.get_current_context().exit(code)


def _own_metrics(listen: Listen | None, number: int) -> list[str]:
    """The `--metrics` of child process `number`, counted from zero; each has its own port."""
    if listen is None:
        return []
    return ["--metrics", listen._replace(port=listen.port + number if listen.port else 0).text]


# ── server ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("program", required=False)
@click.option(
    "--roles", metavar="ROLES", default="planner", show_default=True, callback=read_roles,
    help="'planner', or 'planner,worker' to execute as well.",
)  # fmt: skip
@with_api
@with_node
def server(program: str | None, **options: Any) -> None:
    """Plan the runs of all stored jobs, recover runs of dead nodes, delete old records, and serve the HTTP API.

    It executes nothing: 'onthedot worker' does. It needs no program; with one, it stores that program's jobs when it
    starts. Of several servers one leads, and another takes over if it dies.

    \b
    Examples:
      onthedot server
      onthedot server app.py --store sqlite:///shop.db
      onthedot server --listen 0.0.0.0:7411 --store postgresql://localhost/jobs
      onthedot server --node-id planner-1 --for 1h
    """
    api = take_api_options(options, link=False)
    run(program, NodeOptions(**options), api=api)
