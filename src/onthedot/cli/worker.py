"""`onthedot worker`: execute the runs of stored jobs or of a program's, in one process or in several."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import Command
from onthedot.cli.metrics import read_metrics
from onthedot.cli.node_options import Given, read_names, read_roles, run, with_node

if TYPE_CHECKING:
    from onthedot.model.host_port import Listen

MOST_PROCESSES = 256


@click.command(cls=Command, short_help="Execute the runs of stored jobs, or of a program's.")
@click.argument("program", required=False)
@click.option(
    "--processes", type=click.IntRange(1, MOST_PROCESSES), default=1, show_default=True,
    help="How many nodes, each a process of its own.",
)  # fmt: skip
@click.option(
    "--seats", type=click.IntRange(1, 10_000), help="How many attempts run at once, in each process.  [default: 64]"
)
@click.option(
    "--queues", metavar="NAMES", callback=read_names,
    help="The queues it serves, as in a,b.  [default: 'default', and those of PROGRAM's jobs]",
)  # fmt: skip
@click.option("--labels", metavar="NAMES", callback=read_names, help="What it offers to jobs, as in gpu,region=eu.")
@click.option(
    "--roles", metavar="ROLES", default="worker", show_default=True, callback=read_roles,
    help="'worker', or 'planner,worker' to plan as well.",
)  # fmt: skip
@click.option(
    "--metrics", metavar="HOST:PORT", callback=read_metrics,
    help="Tell Prometheus at /metrics what it does; no key is asked for.  [default: nowhere]",
)  # fmt: skip
@with_node
def command(program: str | None, processes: int, **options: Any) -> None:
    """Execute the runs of stored jobs. Without PROGRAM: of all jobs that need none, such as commands, steps, HTTP calls
    and containers made by the API, by YAML or by this command line. With PROGRAM: of its handlers, too. PROGRAM is a
    Python file that defines a scheduler (app.py, or app.py:name if it has several), a module (shop.jobs), or a YAML
    file with jobs (jobs.yaml). Its jobs are stored; its store and settings are used where none are given here.

    Another node has to plan: 'onthedot server', another program, or this one with --roles planner,worker. With
    --processes each is a node of its own (NAME-1, NAME-2, …); one that dies is started again, and all end with this
    command, however it ends. Ctrl-C or SIGTERM drains all of them; a second one stops now. The metrics of the second
    are one port above those of the first, and so on.

    Exit codes are those of 'onthedot up'; of several processes, the worst.

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
    given = Given(**options)
    if processes == 1:
        run(program, given)
        return
    if given.metrics is not None and given.metrics.port + processes > 65_536:
        told = f"expected a port with room for {processes} processes above it, got {given.metrics.port}"
        raise click.BadParameter(told, param_hint="--metrics")
    from onthedot.cli.processes import Processes
    from onthedot.cli.program import load_program

    if program is not None:
        load_program(program)  # what is wrong with it is said once
    arguments = ["worker", *([program] if program is not None else []), *given.as_arguments()]
    own = partial(_own_metrics, given.metrics)
    family = Processes(arguments, given.node_id, processes, as_json=given.as_json, own=own)
    code = family.run()
    if code:
        click.get_current_context().exit(code)


def _own_metrics(listen: Listen | None, number: int) -> list[str]:
    """Where process `number`, counted from zero, tells its metrics; each at a port of its own."""
    if listen is None:
        return []
    return ["--metrics", listen._replace(port=listen.port + number if listen.port else 0).text]
