"""`onthedot runs | show | trigger | cancel | retry`: lists runs, shows one with its attempts, and makes or ends one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onthedot.cli.connect import call, call_server, queries_of, query, read_store
from onthedot.cli.errors import CUT_SHORT, BadInput, Command, on_this_store
from onthedot.cli.options import (
    RUN,
    check_range,
    store_url,
    unknown_run,
    with_debug,
    with_json,
    with_namespace,
    with_range,
    with_server,
    with_utc,
)
from onthedot.cli.terminal import echo_more, echo_table, in_zone, moment, reader_time, relative, skip_in_words, span
from onthedot.clock import Micros, SystemClock
from onthedot.model.addresses import is_server
from onthedot.model.errors import StateError, UnknownJob, UnknownRun, did_you_mean
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import TERMINAL, AttemptRecord, Progress, RunRecord, RunState, SkipRecord, WaitReason
from onthedot.observe.formats import count, iso, length, optional_iso, plain
from onthedot.observe.json_fields import run_fields
from onthedot.operations.job_lookup import near_names
from onthedot.stores.protocol import Store
from onthedot.stores.queries import JobFilter
from onthedot.stores.values import CancelAnswer, LogRecord

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.operations.verbs import Verbs


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


MOST = 10_000
NEXT_FEW = 5
NEWEST_SKIPS = 5

# Which states are listed, and how many: planned runs alone would fill the screen.
_PARTS: list[tuple[Iterable[RunState], int]] = [
    ([RunState.RUNNING], MOST),
    ([RunState.SCHEDULED, RunState.RESERVED], NEXT_FEW),
    (TERMINAL, MOST),
]


@click.command(cls=Command)
@with_server
@click.option("--job", metavar="NAME", help="Only the runs of this job.")
@with_namespace
@click.option(
    "--state", "states", multiple=True, type=click.Choice([str(state) for state in RunState]),
    help="Only runs in this state; may be given several times.",
)  # fmt: skip
@click.option("--node", metavar="NAME", help="Only runs that this node holds, or had last.")
@with_range("runs that are due, or ended,")
@click.option(
    "-n",
    "--count",
    "--limit",
    "count",
    type=click.IntRange(1, MOST),
    default=20,
    show_default=True,
    help="How many, at most.",
)
@with_json("a JSON array with one object per run")
@with_debug
def runs(
    store: str | None,
    db: str | None,
    job: str | None,
    namespace: str,
    states: tuple[str, ...],
    node: str | None,
    since: datetime | None,
    until: datetime | None,
    count: int,
    as_json: bool,
) -> None:
    """List runs: running ones, the next few that wait (all of them with --state scheduled), then finished ones, the
    latest first. 'onthedot show' shows everything about one run.

    LATE is how long after its due time a run started. TOOK is how long it took, or has taken so far (…). NODE is shown
    if several nodes had these runs. --since and --until compare the end of a run, or its due time if it has not ended.

    \b
    Examples:
      onthedot runs --since yesterday
      onthedot runs --since 'monday 03:00' --until 'monday 04:00' --job nightly_report
      onthedot runs --state dead --state lost
      onthedot runs --node web-1 --since -1h
      onthedot runs --job nightly_report -n 5 --json
    """
    url = store_url(store, db)
    wanted = [RunState(state) for state in states] or None
    with_skips = not as_json and node is None and (wanted is None or RunState.SKIPPED in wanted)

    check_range(since, until)

    async def read(verbs: Verbs) -> tuple[list[RunRecord], list[SkipRecord]]:
        runs = await _list(verbs, job, namespace, wanted, count + 1, Chosen(node, since, until))
        skips: list[SkipRecord] = []
        if with_skips:
            skips = await verbs.list_skips(job, since=since, until=until, limit=NEWEST_SKIPS + 1)
        return runs, skips

    found, skips = query(url, read, namespace=namespace)
    runs = found[:count]
    if as_json:
        click.echo(json.dumps([run_fields(run) for run in runs], indent=2))
    else:
        _echo_runs(runs, skips)
    if len(runs) < len(found):
        echo_more(len(runs), "run", "-n sets how many", as_json=as_json)


class Chosen(NamedTuple):
    """Selects runs: those of one node, or those in a range of time. None means all."""

    node: str | None
    since: datetime | None
    until: datetime | None


async def _list(
    verbs: Verbs, job: str | None, namespace: str, states: list[RunState] | None, count: int, chosen: Chosen
) -> list[RunRecord]:
    if job is not None and await verbs.get_job(job) is None:
        known = await near_names(queries_of(verbs), job, JobFilter(namespaces=(namespace,)))
        raise UnknownJob(f"--job: expected a stored job, got {job!r}{did_you_mean(job, known)}")
    runs: list[RunRecord] = []
    for some, most in _PARTS if states is None else [(states, count)]:
        limit = min(most, count - len(runs))
        runs += await verbs.list_runs(job, states=some, limit=limit, **chosen._asdict()) if limit else []
    return runs


def _echo_runs(runs: list[RunRecord], skips: list[SkipRecord]) -> None:
    now = SystemClock().now()
    if runs:
        several = len({run.node for run in runs if run.node}) > 1
        headings = ["RUN", "JOB", "STATE", in_zone("DUE", now), "LATE", "TOOK", "TRIES"]
        headings += ["NODE", "NOTE"] if several else ["NOTE"]
        echo_table(headings, [_run_row(run, now, with_node=several) for run in runs])
    else:
        click.echo("no runs match")
    for skip in skips[:NEWEST_SKIPS]:
        when = span(skip.first, skip.last, now)
        click.echo(
            f"skipped: {count(skip.count, 'slot')} of {plain(skip.job)} {when}: {plain(skip_in_words(skip.reason))}"
        )
    if len(skips) > NEWEST_SKIPS:
        click.echo(f"these are the newest {NEWEST_SKIPS} ranges of skipped slots; 'onthedot skips' lists more")


def _run_row(run: RunRecord, now: Micros, *, with_node: bool) -> list[str]:
    began = run.started_at if run.started_at is not None else run.running_since
    late = "-" if began is None else length(began - run.due_at)
    return [
        str(run.id),
        run.job,
        str(run.state),
        moment(run.due_at, now),
        late,
        took(run, now),
        str(run.attempts),
        *([run.node or "-"] if with_node else []),
        _note(run),
    ]


def took(run: RunRecord, now: Micros) -> str:
    """Return how long a run took, or has taken so far."""
    if run.started_at is not None and run.ended_at is not None:
        return length(run.ended_at - run.started_at)
    if run.running_since is not None:
        return f"{length(max(0, now - run.running_since))} …"
    return "-"


def _note(run: RunRecord) -> str:
    """Return the progress of a run, or the reason of its state."""
    if run.state is RunState.RUNNING and run.progress is not None:
        return progress_in_words(run.progress)
    return ": ".join(part for part in (reason_in_words(run), run.error) if part)


def reason_in_words(run: RunRecord) -> str:
    """Return the reason of the run's state. Return empty text if there is none, or if the reason adds nothing to the
    state."""
    if run.state is RunState.SKIPPED:
        return skip_in_words(run.reason)
    return "" if run.reason == run.state else run.reason


def progress_in_words(progress: Progress) -> str:
    """The progress of an attempt.

    >>> from onthedot.model.run import Progress
    >>> progress_in_words(Progress(60, 120)), progress_in_words(Progress(3))
    ('60 of 120 (50 %)', '3 done')
    """
    if not progress.of:
        return f"{progress.done:g} done"
    return f"{progress.done:g} of {progress.of:g} ({100 * progress.done / progress.of:.0f} %)"


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────────────


LOG_LINES = 20
"""How many lines of the end of the newest log are shown."""


@dataclass(frozen=True)
class Shown:
    """A run, its attempts and its logs."""

    run: RunRecord
    standing: WaitReason | None  # None: the run has ended
    waits_for: list[str]
    attempts: list[AttemptRecord]
    logs: list[LogRecord]


@click.command(cls=Command)
@click.argument("run_id", type=RUN, metavar="RUN")
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def show(run_id: int, store: str | None, db: str | None, as_json: bool) -> None:
    """Show everything about the run with the number RUN: its trigger, what it waits for, and each of its attempts. Of
    an attempt it shows when it was due, and how long after that it was reserved, armed, started and ended. RESERVED is
    negative if a worker took the run before it was due, which is usual. It only reads.

    \b
    Examples:
      onthedot show 41
      onthedot show 41 --json | jq .waits_for
    """
    now, url = SystemClock().now(), store_url(store, db)
    if is_server(url):
        shown = call_server(url, lambda client: _show_of_server(client, run_id))
    else:
        shown = read_store(url, lambda opened: _show_of_store(opened, run_id, now))
    if as_json:
        click.echo(json.dumps(_shown_as_json(shown), indent=2))
    else:
        _echo_shown(shown, now)


async def _show_of_store(store: Store, run_id: int, now: Micros) -> Shown:
    from onthedot.operations.runs import why_waiting
    from onthedot.output.run_output import read_logs

    run = await store.queries.get_run(run_id)
    if run is None:
        raise unknown_run(run_id)
    standing = await store.queries.why_waiting(run_id)
    waits_for = await why_waiting(store, run, standing, now)
    return Shown(
        run, standing, waits_for, await store.queries.list_attempts(run_id), await read_logs(store, None, run_id)
    )


async def _show_of_server(client: Client, run_id: int) -> Shown:
    from onthedot.client.views import standing

    run = await client.get_run(run_id)
    if run is None:
        raise unknown_run(run_id)
    stands, waits_for = await standing(client.server, run_id)
    return Shown(run, stands, waits_for, await client.history(run_id), await client.logs(run_id))


def _echo_shown(shown: Shown, now: Micros) -> None:
    click.echo("\n".join(f"{name:<9} {plain(value, most=4_000)}" for name, value in _facts(shown, now)))
    rows = [_attempt_row(attempt, now) for attempt in shown.attempts] + _present(shown, now)
    if rows:
        click.echo()
        echo_table(
            ["TRY", "OUTCOME", "NODE", in_zone("DUE", now), "RESERVED", "ARMED", "STARTED", "ENDED", "ERROR"], rows
        )
    if shown.logs:
        _echo_log(shown.logs[-1])


def _echo_log(log: LogRecord) -> None:
    """Print the end of the newest log, where an error would be."""
    lines = log.text.splitlines()
    cut = ["…"] if len(lines) > LOG_LINES else []
    told = [f"  {plain(line, most=1_000)}" for line in [*cut, *lines[-LOG_LINES:]]]
    click.echo("\n".join([f"\nlog of attempt {log.attempt}:", *told]))


def _facts(shown: Shown, now: Micros) -> list[tuple[str, str]]:
    run, standing = shown.run, shown.standing
    name = run.job if run.namespace == "default" else f"{run.namespace}/{run.job}"
    reason = reason_in_words(run)
    facts = [("run", f"{run.id} of {name}"), ("state", f"{run.state}{': ' if reason else ''}{reason}")]
    facts += [("waits for" if not number else "", what) for number, what in enumerate(shown.waits_for)]
    facts += [
        ("trigger", run.trigger),
        ("slot", reader_time(run.slot_at)),
        ("due", f"{reader_time(run.due_at)}, {relative(run.due_at, now)}"),
        ("created", reader_time(run.created_at)),
        ("queue", f"{run.queue}, priority {run.priority}"),
    ]
    if run.origin is not None:
        facts.append(("repeats", f"run {run.origin}"))
    if run.target:
        facts.append(("target", f"node {run.target} only"))
    if run.args is not None:
        facts.append(("args", run.args))
    if standing is not None and standing.expires_at is not None:
        facts.append(("expires", f"{reader_time(standing.expires_at)}, {relative(standing.expires_at, now)}"))
    if run.running_since is not None:
        late = _after(run.running_since, run.due_at)
        ago = relative(run.running_since, now)
        facts.append(("started", f"{reader_time(run.running_since, exact=False)}, {ago}, {late} after it was due"))
    if run.progress is not None:
        facts.append(("progress", progress_in_words(run.progress)))
    return [
        *facts,
        ("took", took(run, now)),
        ("attempts", f"{run.attempts} ({run.failures} failed, {run.recoveries} lost with their node)"),
        ("error", run.error or "-"),
        ("result", run.result or "-"),
        *([("settled", run.settled)] if run.settled else []),
    ]


def _attempt_row(attempt: AttemptRecord, now: Micros) -> list[str]:
    instants = (attempt.reserved_at, attempt.armed_at, attempt.started_at, attempt.ended_at)
    return [
        str(attempt.attempt),
        attempt.outcome,
        attempt.node,
        moment(attempt.due_at, now),
        *(_after(instant, attempt.due_at) for instant in instants),
        attempt.error or "",
    ]


def _present(shown: Shown, now: Micros) -> list[list[str]]:
    """Return a row for the attempt that is running or reserved."""
    run, standing = shown.run, shown.standing
    if standing is None or not standing.node:
        return []
    number = run.attempts if run.state is RunState.RUNNING else run.attempts + 1
    instants = (standing.reserved_at, run.armed_at, run.running_since, None)
    due = moment(run.due_at, now)
    return [[str(number), str(run.state), standing.node, due, *(_after(at, run.due_at) for at in instants), ""]]


def _after(instant: Micros | None, due_at: Micros) -> str:
    if instant is None:
        return "-"
    return f"{'+' if instant >= due_at else ''}{length(instant - due_at)}"


def _shown_as_json(shown: Shown) -> dict[str, Any]:
    run, standing = shown.run, shown.standing
    return {
        **run_fields(run),
        "args": None if run.args is None else json.loads(run.args),
        "result": None if run.result is None else json.loads(run.result),
        "settled": run.settled or None,
        "origin": run.origin,
        "waits_for": shown.waits_for,
        "gate": standing.gate or None if standing else None,
        "held_by": list(standing.holders) if standing else [],
        "reserved_at": optional_iso(standing.reserved_at if standing else None),
        "expires_at": optional_iso(standing.expires_at if standing else None),
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
            for attempt in shown.attempts
        ],
        "logs": [{"attempt": log.attempt, "text": log.text} for log in shown.logs],
    }


# ── trigger ──────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("job")
@click.option(
    "--arg", "pairs", metavar="NAME=VALUE", multiple=True,
    help="An argument; may be given several times.  [default: the job's own arguments]",
)  # fmt: skip
@click.option(
    "--arg-json", "json_pairs", metavar="NAME=JSON", multiple=True, help="The same, with a value that is always JSON."
)
@click.option("-f", "--follow", is_flag=True, help="Print the output of the run until it ends, and how it ended.")
@with_namespace
@with_server
@with_json("one JSON object: the run; with --follow one per line: its output, and at last the run")
@with_debug
def trigger(
    job: str, pairs: tuple[str, ...], json_pairs: tuple[str, ...], follow: bool, namespace: str,
    store: str | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Start one run of JOB now, in addition to those of its schedules. Any node that can execute it takes it.

    With --arg the run has these arguments and no others. A declared parameter decides how its value is read: 137 is
    text for a text parameter, and a number for a number. A handler declares none: for it 3, true and "3" are JSON (a
    number, a boolean and a text), and everything else is text. Use --arg-json for lists and mappings.

    --follow prints the output as 'onthedot logs -f' does, until the run ends. The exit code is 0 if the run succeeded,
    else 1. Ctrl-C stops following (130), and the run continues.

    \b
    Examples:
      onthedot trigger nightly_report
      onthedot trigger nightly_report --follow
      onthedot trigger nightly_report --arg region=us --arg pages=100
      onthedot trigger nightly_report --arg-json 'regions=["us", "eu"]'
    """
    texts = _pairs("--arg", pairs)
    values = {name: _read_json(name, text) for name, text in _pairs("--arg-json", json_pairs).items()}
    twice = texts.keys() & values.keys()
    if twice:
        raise BadInput(f"--arg: expected {min(twice)!r} once, got it twice; leave one out")
    url = store_url(store, db)
    record, run = call(url, lambda verbs: _trigger(verbs, job, texts, values), namespace=namespace)
    if as_json and not follow:
        click.echo(json.dumps(run_fields(run), indent=2))
    else:
        held = "; the job is paused, and the run waits until it is resumed" if record.state is JobState.PAUSED else ""
        click.echo(f"run {run.id} of {plain(run.job)} is stored{held}", err=follow)
    if follow:
        click.get_current_context().exit(follow_run(url, run.id, as_json=as_json))


def follow_run(url: str, run_id: int, *, as_json: bool) -> int:
    """Print the output of the run until it ends. Return the exit code."""
    from onthedot.cli.logs import LogPrinter, tell_run

    code = tell_run(url, run_id, LogPrinter(attempt=None, step=None, as_json=as_json), follow=True)
    if code == CUT_SHORT:
        click.echo(on_this_store(f"run {run_id} goes on; 'onthedot logs {run_id} -f' follows it"), err=True)
    elif as_json:
        ended = call(url, lambda verbs: verbs.get_run(run_id))
        if ended is not None:  # None: deleted meanwhile, after its retention
            click.echo(json.dumps(run_fields(ended)))
    return code


def _pairs(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise BadInput(f"{option}: expected NAME=VALUE like 'region=us', got {pair!r}")
        if name in found:
            raise BadInput(f"{option}: expected {name!r} once, got it twice; leave one out")
        found[name] = text
    return found


def _read_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(
            f"--arg-json: expected JSON for {name!r}, got {text[:80]!r}; text needs quotes of its own"
        ) from None


async def _trigger(
    verbs: Verbs, job: str, texts: dict[str, str], values: dict[str, Any]
) -> tuple[JobRecord, RunRecord]:
    args = {**await _read_args(verbs, job, texts), **values} if texts or values else None
    run = await verbs.get_run(await verbs.trigger(job, args))
    record = await verbs.get_job(job)
    if run is None or record is None:
        raise BadInput(f"job {job!r} was deleted meanwhile")
    return record, run


async def _read_args(verbs: Verbs, job: str, texts: dict[str, str]) -> dict[str, Any]:
    """Read each text as the job's parameter of that name declares it. If the job declares none, read it as JSON, or
    else as text."""
    from onthedot.runners.params import value_of_text

    record = await verbs.get_job(job) if texts else None
    declared = {} if record is None else {param.name: param for param in record.job.params}
    return {
        name: value_of_text(declared[name], text) if name in declared else _json_or_text(text)
        for name, text in texts.items()
    }


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("run_id", type=RUN, metavar="RUN")
@click.option("--reason", metavar="TEXT", default="cancelled", show_default=True, help="Why; it is kept with the run.")
@with_server
@with_json("one JSON object")
@with_debug
def cancel(run_id: int, reason: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Cancel the run with the number RUN. A waiting run ends at once. A running one is asked to stop, and is not
    retried. A run that has ended is refused.

    \b
    Examples:
      onthedot cancel 41
      onthedot cancel 41 --reason "the customer has left"
    """
    answer = call(store_url(store, db), lambda verbs: _cancel(verbs, run_id, reason))
    if as_json:
        state = None if answer.state is None else str(answer.state)
        click.echo(json.dumps({"run_id": run_id, "answer": answer.kind, "state": state}, indent=2))
    elif answer.kind == "asked":
        click.echo(
            on_this_store(f"run {run_id} is running; it is asked to stop, 'onthedot show {run_id}' tells when it has")
        )
    else:
        click.echo(f"run {run_id} is cancelled")


async def _cancel(verbs: Verbs, run_id: int, reason: str) -> CancelAnswer:
    answer = await verbs.cancel(run_id, why=reason)
    if answer.kind == "unknown":
        raise unknown_run(run_id)
    if answer.kind == "ended":
        raise BadInput(f"RUN: expected a run that waits or runs, got {run_id}, which has ended already: {answer.state}")
    return answer


# ── retry ────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("run_id", type=RUN, metavar="RUN")
@click.option("--from-step", metavar="NAME", help="The step to start at.  [default: the one that failed]")
@with_server
@with_json("one JSON object: the new run")
@with_debug
def retry(run_id: int, from_step: str | None, store: str | None, db: str | None, as_json: bool) -> None:
    """Start a new run that continues where RUN failed: at the failed step, with the outputs of the earlier steps, and
    in RUN's workspace if it still exists. For commands and steps; RUN must have ended.

    \b
    Examples:
      onthedot retry 41
      onthedot retry 41 --from-step build
    """
    run = call(store_url(store, db), lambda verbs: _retry(verbs, run_id, from_step))
    if as_json:
        click.echo(json.dumps(run_fields(run), indent=2))
    else:
        click.echo(f"run {run.id} of {plain(run.job)} is stored; it continues run {run_id}")


async def _retry(verbs: Verbs, run_id: int, from_step: str | None) -> RunRecord:
    try:
        made = await verbs.retry_run(run_id, from_step=from_step)
    except UnknownRun:
        raise unknown_run(run_id) from None
    except StateError as error:
        raise BadInput(f"RUN: {error}") from None
    run = await verbs.get_run(made)
    if run is None:
        raise BadInput(f"run {made} was forgotten meanwhile")
    return run
