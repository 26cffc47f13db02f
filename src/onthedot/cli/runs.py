"""`onthedot runs`: what waits, what runs, what became of the rest; and one run with all its attempts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_store
from onthedot.run import TERMINAL, RunState

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.run import AttemptRecord, RunRecord, SkipRecord
    from onthedot.stores.base import Store

MOST = 10_000
NEXT_FEW = 5

# Who asks for runs wants to see what happened, and a little of what comes: the look-ahead alone would fill a screen.
_PARTS: list[tuple[Iterable[RunState], int]] = [
    ([RunState.RUNNING], MOST),
    ([RunState.SCHEDULED, RunState.RESERVED], NEXT_FEW),
    (TERMINAL, MOST),
]


@click.command(cls=Command, short_help="List runs, or show one run with its attempts.")
@click.argument("run_id", type=click.IntRange(min=1), required=False)
@with_store
@click.option("--job", metavar="NAME", help="Only the runs of this job.")
@click.option("--namespace", metavar="NAME", default="default", show_default=True, help="The job's namespace.")
@click.option(
    "--state", "states", multiple=True, type=click.Choice([str(state) for state in RunState]),
    help="Only runs in this state; may be given several times.",
)  # fmt: skip
@click.option("-n", "--count", type=click.IntRange(1, MOST), default=20, show_default=True, help="How many, at most.")
@with_json("a JSON array with one object per run; for one run, one object")
@with_debug
def command(
    run_id: int | None,
    store: str | None,
    db: str | None,
    job: str | None,
    namespace: str,
    states: tuple[str, ...],
    count: int,
    as_json: bool,
) -> None:
    """List runs: what is running, the next few that wait (all of them with --state scheduled), then finished ones,
    the latest first.

    With RUN_ID: that run alone, with the five instants of each of its attempts (due, reserved, armed, started, ended).

    \b
    Examples:
      onthedot runs --state dead --state lost
      onthedot runs --job nightly_report -n 5 --json
      onthedot runs 41
    """
    from onthedot.cli.reading import read_store

    url = store_url(store, db)
    if run_id is not None:
        if job is not None or states:
            raise click.UsageError("expected RUN_ID or filters (--job, --state), got both; leave one out")
        run, attempts = read_store(url, lambda opened: _one(opened, run_id))
        click.echo(json.dumps(_one_as_json(run, attempts), indent=2) if as_json else "\n".join(_detail(run, attempts)))
        return
    wanted = [RunState(state) for state in states] or None
    runs, skips = read_store(url, lambda opened: _list(opened, job, namespace, wanted, count))
    if as_json:
        from onthedot.observe.json_lines import run_fields

        click.echo(json.dumps([run_fields(run) for run in runs], indent=2))
    else:
        _echo(runs, skips)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _list(
    store: Store, job: str | None, namespace: str, states: list[RunState] | None, count: int
) -> tuple[list[RunRecord], list[SkipRecord]]:
    if job is not None and await store.get_job(job, namespace=namespace) is None:
        from onthedot.errors import UnknownJob, did_you_mean

        known = [record.job.name for record in await store.list_jobs() if record.job.namespace == namespace]
        raise UnknownJob(f"--job: expected a stored job, got {job!r}{did_you_mean(job, known)}")
    runs: list[RunRecord] = []
    for some, most in _PARTS if states is None else [(states, count)]:
        limit = min(most, count - len(runs))
        runs += await store.list_runs(job=job, namespace=namespace, states=some, limit=limit) if limit else []
    wants_skips = states is None or RunState.SKIPPED in states
    skips = await store.list_skips(job=job, namespace=namespace, limit=5) if wants_skips else []
    return runs, skips


async def _one(store: Store, run_id: int) -> tuple[RunRecord, list[AttemptRecord]]:
    run = await store.get_run(run_id)
    if run is None:
        raise BadInput(f"RUN_ID: expected a stored run, got {run_id}; 'onthedot runs' lists them")
    return run, await store.list_attempts(run_id)


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _echo(runs: list[RunRecord], skips: list[SkipRecord]) -> None:
    from onthedot.cli.table import echo_table
    from onthedot.clock import SystemClock
    from onthedot.observe.text import count, plain, span

    now = SystemClock().now()
    if runs:
        echo_table(["RUN", "JOB", "STATE", "DUE", "LATE", "TOOK", "TRIES", "WHY"], [_row(run, now) for run in runs])
    else:
        click.echo("no runs match")
    for skip in skips:
        when = span(skip.first, skip.last, now)
        click.echo(f"skipped: {count(skip.count, 'slot')} of {plain(skip.job)} {when}: {plain(skip.reason)}")


def _row(run: RunRecord, now: Micros) -> list[str]:
    from onthedot.observe.text import length, moment

    late = "-" if run.started_at is None else length(run.started_at - run.due_at)
    return [
        str(run.id),
        run.job,
        str(run.state),
        moment(run.due_at, now),
        late,
        _took(run, now),
        str(run.attempts),
        _why(run.reason, run.error),
    ]


def _took(run: RunRecord, now: Micros) -> str:
    from onthedot.observe.text import length

    if run.started_at is not None and run.ended_at is not None:
        return length(run.ended_at - run.started_at)
    if run.state is RunState.RUNNING and run.armed_at is not None:
        return f"{length(max(0, now - run.armed_at))} …"
    return "-"


def _why(reason: str, error: str | None) -> str:
    return ": ".join(part for part in (reason, error) if part)


def _detail(run: RunRecord, attempts: list[AttemptRecord]) -> list[str]:
    from onthedot.cli.words import local_time
    from onthedot.clock import SystemClock
    from onthedot.observe.text import plain

    facts = [
        ("run", f"{run.id} of {run.job}"),
        ("state", f"{run.state}{': ' if run.reason else ''}{run.reason}"),
        ("trigger", run.trigger),
        ("slot", local_time(run.slot_at, None)),
        ("due", local_time(run.due_at, None)),
        ("created", local_time(run.created_at, None)),
        ("took", _took(run, SystemClock().now())),
        ("attempts", f"{run.attempts} ({run.failures} failed, {run.recoveries} lost with their node)"),
        ("error", run.error or "-"),
        ("result", run.result or "-"),
    ]
    lines = [f"{name:<9} {plain(value, most=4_000)}" for name, value in facts]
    for attempt in attempts:
        lines += ["", *_attempt_lines(attempt)]
    return lines


def _attempt_lines(attempt: AttemptRecord) -> list[str]:
    """The five instants, each after the due one."""
    from onthedot.cli.words import local_time
    from onthedot.observe.text import length, plain

    by_whom = f"on {attempt.node}, revision {attempt.revision}, fence {attempt.fence}"
    lines = [
        plain(f"attempt {attempt.attempt}: {attempt.outcome}, {by_whom}"),
        f"  due       {local_time(attempt.due_at, None)}",
    ]
    instants = {
        "reserved": attempt.reserved_at,
        "armed": attempt.armed_at,
        "started": attempt.started_at,
        "ended": attempt.ended_at,
    }
    for name, instant in instants.items():
        if instant is None:
            lines.append(f"  {name:<9} never")
        else:
            away = instant - attempt.due_at
            lines.append(f"  {name:<9} {local_time(instant, None)}  {'+' if away >= 0 else ''}{length(away)}")
    if attempt.error:
        lines.append(f"  error     {plain(attempt.error, most=4_000)}")
    return lines


def _one_as_json(run: RunRecord, attempts: list[AttemptRecord]) -> dict[str, Any]:
    from onthedot.observe.json_lines import optional_iso, run_fields
    from onthedot.observe.text import iso

    return {
        **run_fields(run),
        "result": None if run.result is None else json.loads(run.result),
        "attempt_list": [
            {
                "attempt": attempt.attempt,
                "outcome": attempt.outcome,
                "error": attempt.error,
                "node": attempt.node,
                "revision": attempt.revision,
                "fence": attempt.fence,
                "due_at": iso(attempt.due_at),
                "reserved_at": iso(attempt.reserved_at),
                "armed_at": iso(attempt.armed_at),
                "started_at": optional_iso(attempt.started_at),
                "ended_at": iso(attempt.ended_at),
            }
            for attempt in attempts
        ],
    }
