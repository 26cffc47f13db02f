"""`onthedot runs`: what waits, what runs, what became of the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import check_range, store_url, with_debug, with_json, with_namespace, with_range, with_server
from onthedot.model.run import TERMINAL, RunState

if TYPE_CHECKING:
    from datetime import datetime

    from onthedot.clock import Micros
    from onthedot.model.run import Progress, RunRecord, SkipRecord
    from onthedot.operations.verbs import Verbs

MOST = 10_000
NEXT_FEW = 5
NEWEST_SKIPS = 5

# Who asks for runs wants to see what happened, and a little of what comes: the look-ahead alone would fill a screen.
_PARTS: list[tuple[Iterable[RunState], int]] = [
    ([RunState.RUNNING], MOST),
    ([RunState.SCHEDULED, RunState.RESERVED], NEXT_FEW),
    (TERMINAL, MOST),
]


@click.command(cls=Command, short_help="List runs: what waits, what runs, what became of the rest.")
@with_server
@click.option("--job", metavar="NAME", help="Only the runs of this job.")
@with_namespace
@click.option(
    "--state", "states", multiple=True, type=click.Choice([str(state) for state in RunState]),
    help="Only runs in this state; may be given several times.",
)  # fmt: skip
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
def command(
    store: str | None,
    db: str | None,
    job: str | None,
    namespace: str,
    states: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    count: int,
    as_json: bool,
) -> None:
    """List runs: what is running, the next few that wait (all of them with --state scheduled), then finished ones,
    the latest first. 'onthedot show' tells all about one of them.

    LATE is how long after its due instant it started, TOOK how long it took, or takes so far (…). A run has its place
    in time by when it ended; while it has not, by when it is due.

    \b
    Examples:
      onthedot runs --since yesterday
      onthedot runs --since 'monday 03:00' --until 'monday 04:00' --job nightly_report
      onthedot runs --state dead --state lost
      onthedot runs --job nightly_report -n 5 --json
    """
    from onthedot.cli.asking import look

    url = store_url(store, db)
    wanted = [RunState(state) for state in states] or None
    with_skips = not as_json and (wanted is None or RunState.SKIPPED in wanted)

    check_range(since, until)

    async def read(verbs: Verbs) -> tuple[list[RunRecord], list[SkipRecord]]:
        runs = await _list(verbs, job, namespace, wanted, count + 1, Between(since, until))
        skips: list[SkipRecord] = []
        if with_skips:
            skips = await verbs.list_skips(job, since=since, until=until, limit=NEWEST_SKIPS + 1)
        return runs, skips

    found, skips = look(url, read, namespace=namespace)
    runs = found[:count]
    if as_json:
        from onthedot.observe.json_lines import run_fields

        click.echo(json.dumps([run_fields(run) for run in runs], indent=2))
    else:
        _echo(runs, skips)
    if len(runs) < len(found):
        from onthedot.cli.table import echo_more

        echo_more(len(runs), "run", "-n sets how many", as_json=as_json)


class Between(NamedTuple):
    """A range of time; None: open."""

    since: datetime | None
    until: datetime | None


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _list(
    verbs: Verbs, job: str | None, namespace: str, states: list[RunState] | None, count: int, between: Between
) -> list[RunRecord]:
    if job is not None and await verbs.get_job(job) is None:
        from onthedot.cli.asking import finding
        from onthedot.model.errors import UnknownJob, did_you_mean
        from onthedot.operations.job_lookup import near_names
        from onthedot.stores.queries import JobFilter

        known = await near_names(finding(verbs), job, JobFilter(namespaces=(namespace,)))
        raise UnknownJob(f"--job: expected a stored job, got {job!r}{did_you_mean(job, known)}")
    runs: list[RunRecord] = []
    for some, most in _PARTS if states is None else [(states, count)]:
        limit = min(most, count - len(runs))
        runs += await verbs.list_runs(job, states=some, limit=limit, **between._asdict()) if limit else []
    return runs


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _echo(runs: list[RunRecord], skips: list[SkipRecord]) -> None:
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone, skip_in_words, span
    from onthedot.clock import SystemClock
    from onthedot.observe.formats import count, plain

    now = SystemClock().now()
    if runs:
        headings = ["RUN", "JOB", "STATE", in_zone("DUE", now), "LATE", "TOOK", "TRIES", "NOTE"]
        echo_table(headings, [_row(run, now) for run in runs])
    else:
        click.echo("no runs match")
    for skip in skips[:NEWEST_SKIPS]:
        when = span(skip.first, skip.last, now)
        click.echo(
            f"skipped: {count(skip.count, 'slot')} of {plain(skip.job)} {when}: {plain(skip_in_words(skip.reason))}"
        )
    if len(skips) > NEWEST_SKIPS:
        click.echo(f"these are the newest {NEWEST_SKIPS} ranges of skipped slots; 'onthedot skips' lists more")


def _row(run: RunRecord, now: Micros) -> list[str]:
    from onthedot.cli.words import moment
    from onthedot.observe.formats import length

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
        _note(run),
    ]


def took(run: RunRecord, now: Micros) -> str:
    """How long a run took, or takes so far."""
    from onthedot.observe.formats import length

    if run.started_at is not None and run.ended_at is not None:
        return length(run.ended_at - run.started_at)
    if run.running_since is not None:
        return f"{length(max(0, now - run.running_since))} …"
    return "-"


def _note(run: RunRecord) -> str:
    """How far it is, or why it is where it is."""
    if run.state is RunState.RUNNING and run.progress is not None:
        return progress_in_words(run.progress)
    return ": ".join(part for part in (reason_in_words(run), run.error) if part)


def reason_in_words(run: RunRecord) -> str:
    """Why the run is where it is, as people are told; empty: it says nothing."""
    from onthedot.cli.words import skip_in_words

    return skip_in_words(run.reason) if run.state is RunState.SKIPPED else run.reason


def progress_in_words(progress: Progress) -> str:
    """
    >>> from onthedot.model.run import Progress
    >>> progress_in_words(Progress(60, 120)), progress_in_words(Progress(3))
    ('60 of 120 (50 %)', '3 done')
    """
    if not progress.of:
        return f"{progress.done:g} done"
    return f"{progress.done:g} of {progress.of:g} ({100 * progress.done / progress.of:.0f} %)"
