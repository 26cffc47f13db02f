"""`onthedot next | upcoming | lint`: shows what a schedule means, what starts next, and what looks wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from onthedot.cli.connect import call_server, has_living_node, query, read_store
from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import read_time, refuse_program, store_url, with_debug, with_json, with_server, with_utc
from onthedot.cli.terminal import (
    NOBODY_LIVES,
    clock_change,
    echo_table,
    in_zone,
    local_time,
    moment,
    read_iso,
    reader_time,
    relative,
    table,
    without_anchor,
)
from onthedot.clock import SECOND, Micros, SystemClock, to_datetime, to_micros
from onthedot.define.check import missing_parents
from onthedot.define.job_reader import read_file
from onthedot.model.addresses import is_server
from onthedot.model.job import Call, Cron, FixedDelay, Job, Schedule, job_name
from onthedot.observe.formats import count, iso, optional_iso, plain
from onthedot.observe.json_fields import coming_fields, start_fields
from onthedot.operations.job_lookup import find_job
from onthedot.operations.next_slots import gather, look_ahead
from onthedot.rules.next_slots import coming
from onthedot.rules.next_slots import upcoming as order_starts
from onthedot.runners.injection import injection_risks
from onthedot.schedules import cron_fields, describe, next_after, parse, slots, to_text
from onthedot.schedules.instants import format_instant, read_instant
from onthedot.schedules.lint import ScheduleWarning
from onthedot.schedules.lint import lint as find_odd
from onthedot.schedules.zones import zone
from onthedot.stores.protocol import Store
from onthedot.stores.queries import JobFilter

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.client.views import Upcoming


# ── next ─────────────────────────────────────────────────────────────────────────────────────────────────────────


MOST_INSTANTS = 1_000


@click.command(cls=Command, name="next")
@click.argument("words", nargs=-1, required=True, metavar="EXPR")
@click.option("--tz", metavar="ZONE", help="The time zone, such as Europe/Berlin.  [default: UTC]")
@click.option(
    "-n", "--count", type=click.IntRange(1, MOST_INSTANTS), default=10, show_default=True, help="How many times."
)
@click.option("--from", "start", metavar="ISO", help="Show the times after this one.  [default: now]")
@click.option("--gap", type=click.Choice(["run_after", "skip"]), help="For a time that a clock change skips.")
@click.option("--fold", type=click.Choice(["first", "second", "both"]), help="For a time that a clock change repeats.")
@click.option("--seconds", is_flag=True, help="The first field is the seconds: 6 fields, or 4 up to the day.")
@click.option("--job", metavar="NAME", help="The job whose name (or namespace/name) decides the value of H.")
@with_json("one JSON object")
@with_debug
def next_(
    words: tuple[str, ...],
    tz: str | None,
    count: int,
    start: str | None,
    gap: Literal["run_after", "skip"] | None,
    fold: Literal["first", "second", "both"] | None,
    seconds: bool,
    job: str | None,
    as_json: bool,
) -> None:
    """Show what EXPR means, in words, and its next times.

    EXPR is a schedule of a job: cron with 5 fields (6 with seconds first; with --seconds also 4: 'second minute hour
    day'), an alias such as '@daily', 'every 1h30m', 'gap 10m', 'at 2026-01-01T09:00+01:00', 'in 10m'. The job's name
    decides the value of H in a cron field.

    \b
    Examples:
      onthedot next "30 2 * * *" --tz Europe/Berlin
      onthedot next "*/10 * * * * *" -n 3
      onthedot next "H H(0-5) * * *" --job report
      onthedot next "30 2 * * *" --tz Europe/Berlin --from 2026-03-27T12:00+01:00
    """
    schedule = _of_job(parse(_one_expression(words), tz=tz, gap=gap, fold=fold, seconds=seconds), job)
    now = SystemClock().now() if start is None else to_micros(read_instant(start, tz=tz or "UTC", what="--from"))
    where = _where(schedule, tz)
    instants = list(islice(slots(schedule, now, origin=now), count))
    if as_json:
        click.echo(json.dumps(_next_as_json(schedule, instants, now, where), indent=2))
    else:
        click.echo("\n".join([*_reading(schedule, where), "", *_next_rows(schedule, instants, now, where)]))


def _one_expression(words: tuple[str, ...]) -> str:
    if len(words) > 1:
        raise click.UsageError(
            f"expected one EXPR, got {len(words)} words; put it in quotes, so that the shell leaves '*' alone: "
            "'onthedot next \"30 2 * * *\"'"
        )
    return words[0]


def _of_job(schedule: Schedule, job: str | None) -> Schedule:
    """The schedule of a job with this name, which chooses the values of H."""
    namespace, _, name = (job or "").rpartition("/")
    called = Job(name=name, namespace=namespace or "default", task=Call(handler=""), schedules=(schedule,))
    return called.schedules[0]


def _where(schedule: Schedule, tz: str | None) -> tzinfo:
    return zone(schedule.tz if isinstance(schedule, Cron) else tz or "UTC")


def _reading(schedule: Schedule, where: tzinfo) -> list[str]:
    lines = [f"reading   {describe(schedule)}"]
    if isinstance(schedule, Cron):
        fields = cron_fields(schedule.expression, schedule.spread)
        lines.append("fields    " + ", ".join(f"{name} {text}" for name, text in fields.items()))
        if schedule.spread.endswith("/"):
            lines.append("note      H is another value for each job: say for which with --job")
    return [*lines, f"zone      {where}"]


def _next_rows(schedule: Schedule, instants: list[Micros], now: Micros, where: tzinfo) -> list[str]:
    if not instants:
        return [f"no instant after {local_time(now, where)}: this schedule is over"]
    rows = [
        [
            f"{local:%a} {local_time(instant, where)}",
            format_instant(to_datetime(instant)),
            relative(instant, now) + _remarks(schedule, local, change),
        ]
        for instant, local, change in _with_changes(instants, where)
    ]
    lines = table(["LOCAL TIME", "UTC", "WHEN"], rows).split("\n")
    if isinstance(schedule, FixedDelay):
        lines.append("the following ones depend on when its runs end")
    return lines


def _remarks(schedule: Schedule, local: datetime, change: str | None) -> str:
    """Return remarks about the effect of a clock change on this line."""
    told = [f"clocks go {change}"] if change else []
    other = local.replace(fold=1 - local.fold)  # the same local time, before or after the clocks go back
    if other.utcoffset() != local.utcoffset() and not _starts_at(schedule, to_micros(other.astimezone(UTC))):
        which = "second" if local.fold else "first"
        told.append(f"{local:%H:%M} comes twice, and it starts once: the {which} time")
    return f"   ← {'; '.join(told)}" if told else ""


def _starts_at(schedule: Schedule, instant: Micros) -> bool:
    return next_after(schedule, instant - 1, origin=instant - 1) == instant


def _with_changes(instants: list[Micros], where: tzinfo) -> list[tuple[Micros, datetime, str | None]]:
    """Each instant, its local time, and the clock change since the one before."""
    local = [to_datetime(instant).astimezone(where) for instant in instants]
    changes = [None, *(clock_change(before, after) for before, after in pairwise(local))]
    return list(zip(instants, local, changes, strict=True))


def _next_as_json(schedule: Schedule, instants: list[Micros], now: Micros, where: tzinfo) -> dict[str, Any]:
    return {
        "expression": to_text(schedule),
        "reading": describe(schedule),
        "fields": cron_fields(schedule.expression, schedule.spread) if isinstance(schedule, Cron) else None,
        "tz": str(where),
        "from": iso(now),
        "instants": [
            {"local": local.isoformat(), "utc": iso(instant), "in_s": (instant - now) / SECOND, "clocks": change}
            for instant, local, change in _with_changes(instants, where)
        ],
    }


# ── upcoming ─────────────────────────────────────────────────────────────────────────────────────────────────────


MOST_STARTS = 1_000
_MOST_COUNTED = 1_000
_MINUTE, _HOUR = 60, 3_600


@click.command(cls=Command)
@click.argument("job", required=False)
@click.option("--job", "named", metavar="NAME", help="The same as JOB.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, MOST_STARTS), default=20, show_default=True, help="At most so many lines."
)
@click.option("--until", metavar="WHEN", help="Only starts until WHEN: tomorrow, +2h, 2026-11-17, 'monday 03:00'.")
@click.option("--namespace", metavar="NAME", help="Only of this namespace.  [default: all; with JOB: default]")
@with_utc
@with_server
@with_json("one JSON object: the starts, and how many jobs are paused")
@with_debug
def upcoming(
    job: str | None,
    named: str | None,
    limit: int,
    until: str | None,
    namespace: str | None,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """List the next starts: slots of schedules, and runs that wait for their time. With JOB, only the starts of that
    job.

    A job that starts very often has one line: its next start, and how often it starts. Paused jobs are only counted.

    \b
    Examples:
      onthedot upcoming
      onthedot upcoming --until 'tomorrow 06:00' --limit 100
      onthedot upcoming nightly_report
      onthedot upcoming --json | jq -r '.starts[] | .due_at + " " + .job'
    """
    now, url = SystemClock().now(), store_url(store, db)
    end = None if until is None else to_micros(read_time(until, "--until", ahead=True))
    if end is not None and end <= now:
        raise BadInput(f"--until: expected a point in time to come, got {until!r}")
    if job is not None and named not in (None, job):
        raise BadInput(f"--job: expected one job, got {job!r} and {named!r}; leave one out")
    job = job or named
    if job is not None:
        _show_job(url, job, namespace or "default", limit, end, now, as_json=as_json)
        return
    found, is_alive = _read_upcoming(url, now, limit, end, namespace)
    if as_json:
        told = {"starts": found.starts, "paused": found.paused, "read_until": optional_iso(found.read_until)}
        click.echo(json.dumps(told, indent=2))
    else:
        _echo_upcoming(found, now, limit)
        if found.starts and not is_alive:
            click.echo(NOBODY_LIVES)


def _read_upcoming(
    url: str, now: Micros, limit: int, until: Micros | None, namespace: str | None
) -> tuple[Upcoming, bool]:
    """The next starts, and whether a node lives."""
    from onthedot.client import views

    async def read(store: Store) -> tuple[Upcoming, bool]:
        wanted = JobFilter(namespaces=None if namespace is None else (namespace,))
        found = await gather(store, now, limit=limit, until=until, wanted=wanted)
        starts = [start_fields(one) for one in order_starts(found, now, limit=limit, until=until)]
        return views.Upcoming(starts, found.paused, found.read_until), await has_living_node(store, now)

    async def asked(client: Client) -> tuple[Upcoming, bool]:
        return await views.upcoming(client.server, limit=limit, until=until, namespace=namespace), True

    return call_server(url, asked) if is_server(url) else read_store(url, read)


def _echo_upcoming(found: Upcoming, now: Micros, limit: int) -> None:
    if found.starts:
        echo_table([in_zone("DUE", now), "WHEN", "JOB", "WHAT"], [_start_row(start, now) for start in found.starts])
    else:
        click.echo("nothing is to start")
    if len(found.starts) == limit:
        click.echo(f"these are the first {limit}; --limit sets how many")
    if found.read_until is not None:
        click.echo(f"what is due after {reader_time(found.read_until)} was not read: there is too much; name a job")
    if found.paused:
        more = "more than " if found.paused >= _MOST_COUNTED else ""
        are = "is" if found.paused == 1 else "are"
        click.echo(f"{more}{count(found.paused, 'job')} {are} paused and not listed; 'onthedot jobs' names them")


def _start_row(start: Mapping[str, Any], now: Micros) -> list[str]:
    name = start["job"] if start["namespace"] == "default" else f"{start['namespace']}/{start['job']}"
    return [*_due(start, now), name, _what(start, now)]


def _due(start: Mapping[str, Any], now: Micros) -> list[str]:
    due_at = read_iso(start["due_at"])
    return [moment(due_at, now), relative(due_at, now)]


def _what(start: Mapping[str, Any], now: Micros) -> str:
    if start["every_s"] is not None:
        return f"{_rate(start['every_s'])}: {without_anchor(start['reading'] or '')}"
    if start["run_id"] is None:
        return without_anchor(start["reading"] or "")
    return _of_run(start, now)


def _of_run(start: Mapping[str, Any], now: Micros) -> str:
    """Return the number, the attempt and the reason of a waiting run as text; empty text for a slot."""
    if start["run_id"] is None:
        return ""
    tried = f", try {start['attempts'] + 1}" if start["attempts"] else ""
    slot = start["slot_at"] if start.get("moved") else start.get("moved_from")
    why = start["trigger"].partition(":")[0] if slot is None else f"moved from {moment(read_iso(slot), now)}"
    return f"run {start['run_id']}{tried} ({why})"


def _rate(every: float) -> str:
    """How often something starts.

    >>> _rate(1.0), _rate(90.0), _rate(7200.0)
    ('60 a minute', '40 an hour', '12 a day')
    """
    for size, unit in ((_MINUTE, "a minute"), (_HOUR, "an hour"), (24 * _HOUR, "a day")):
        if every <= size / 2:
            return f"{size / every:.3g} {unit}"
    return f"{7 * 24 * _HOUR / every:.3g} a week"


def _show_job(
    url: str, job: str, namespace: str, limit: int, until: Micros | None, now: Micros, *, as_json: bool
) -> None:
    from onthedot.client import views

    async def read(store: Store) -> tuple[str, list[Mapping[str, Any]], bool]:
        record = await find_job(store, job, namespace=namespace)
        ahead = await look_ahead(store, record.id, now, limit=limit)
        starts: list[Mapping[str, Any]] = [coming_fields(one) for one in coming(ahead, now, limit)]
        return str(record.state), starts, await has_living_node(store, now)

    is_alive = True
    if is_server(url):
        state, found = call_server(
            url, lambda client: views.next_of(client.server, job, count=limit, namespace=namespace)
        )
    else:
        state, found, is_alive = read_store(url, read)
    starts = [one for one in found if until is None or read_iso(one["due_at"]) <= until]
    if as_json:
        click.echo(json.dumps({"job": job, "namespace": namespace, "state": state, "starts": starts}, indent=2))
        return
    if state == "paused":
        click.echo(f"job {plain(job)} is paused: it starts when it is resumed, and would start then")
    if starts:
        rows = [[*_due(one, now), one["schedule"] or "-", _of_run(one, now)] for one in starts]
        heads = [in_zone("DUE", now), "WHEN", "SCHEDULE", "WHAT"]
        echo_table(*((heads, rows) if any(row[-1] for row in rows) else (heads[:-1], [row[:-1] for row in rows])))
    else:
        click.echo(f"job {plain(job)} has no start that is known")
    if starts and not is_alive:
        click.echo(NOBODY_LIVES)


# ── lint ─────────────────────────────────────────────────────────────────────────────────────────────────────────


SOMETHING_ODD = 3


class Looked(NamedTuple):
    """One schedule, its job, and its warnings."""

    job: str
    schedule: Schedule
    odd: list[ScheduleWarning]


_FILES = (".yaml", ".yml", ".json")


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="[EXPR|FILE]")
@click.option("--tz", metavar="ZONE", help="The time zone of EXPR.  [default: UTC]")
@click.option("--seconds", is_flag=True, help="The first field of EXPR is the second: 6 fields, or 4 up to the day.")
@click.option("--exit-code", is_flag=True, help="Exit with 3 if something looks wrong.")
@with_server
@with_json("one JSON object")
@with_debug
def lint(
    words: tuple[str, ...],
    tz: str | None,
    seconds: bool,
    exit_code: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Report schedules that may not do what their author meant: steps that do not divide an hour, both day fields, days
    that few months have, times that a clock change skips or repeats, four fields, schedules that never start or start
    only once, and jobs that run after a missing job.

    EXPR is a schedule as for 'onthedot next'. FILE is a file of jobs (jobs.yaml). Without either, it checks the stored
    jobs, and also reports parameters that a shell or another interpreter could read as code. Such jobs still run, but
    new definitions of this kind are refused.

    \b
    --json writes: schedules [{job, expression, reading, odd [{kind, text, advice}]}], and of a store also
    parameters [{job, problem}]; of a file or a store, after [{job, problem}]

    \b
    Examples:
      onthedot lint "*/7 * * * *"
      onthedot lint "30 2 * * *" --tz Europe/Berlin
      onthedot lint jobs.yaml --exit-code
      onthedot lint --db onthedot.db
    """
    refuse_program("FILE", words)
    if seconds and (not words or words[0].endswith(_FILES)):
        raise click.UsageError("--seconds: expected with EXPR only, got it without; jobs say their own")
    is_file = bool(words) and words[0].endswith(_FILES)
    stored = [] if words else _stored(store_url(store, db), tz)
    if words and (store, db) != (None, None):
        raise click.UsageError("expected EXPR or FILE, or a store, got both; leave one out")
    jobs = _of_file(words, tz) if is_file else stored
    given = [(job.name, one) for job in jobs for one in job.schedules]
    if words and not is_file:
        given = [("", _schedule(words, tz, seconds))]
    now = SystemClock().now()
    looked = [Looked(job, schedule, find_odd(schedule, now)) for job, schedule in given]
    doubtful = [(job.name, problem) for job in stored for problem in _doubts(job)]
    waiting = _waiting(jobs, "is in this file" if is_file else "is stored")
    if as_json:
        told: dict[str, Any] = {"schedules": [_lint_as_json(one) for one in looked]}
        if not words:
            told["parameters"] = [{"job": job, "problem": problem} for job, problem in doubtful]
        if not words or is_file:
            told["after"] = [{"job": job, "problem": problem} for job, problem in waiting]
        click.echo(json.dumps(told, indent=2))
    else:
        _echo_lint(looked, [*doubtful, *waiting])
    if exit_code and (doubtful or waiting or any(one.odd for one in looked)):
        raise click.exceptions.Exit(SOMETHING_ODD)


def _stored(url: str, tz: str | None) -> list[Job]:
    if tz is not None:
        raise click.UsageError("--tz: expected with EXPR only, got it without; stored jobs say their own")
    return [record.job for record in query(url, lambda verbs: verbs.list_jobs())]


def _doubts(job: Job) -> list[str]:
    return [str(doubt) for doubt in injection_risks(job.task, job.params)]


def _waiting(jobs: list[Job], where: str) -> list[tuple[str, str]]:
    """The jobs that run after a job that is missing."""
    known = {job_name(job) for job in jobs}
    return [(job.name, text) for job in jobs if (text := missing_parents(job, known, where))]


def _one_source(words: tuple[str, ...]) -> str:
    if len(words) > 1:
        raise click.UsageError(
            f"expected one EXPR or FILE, got {len(words)} words; put it in quotes, so that the shell leaves '*' alone: "
            "'onthedot lint \"*/7 * * * *\"'"
        )
    return words[0]


def _schedule(words: tuple[str, ...], tz: str | None, seconds: bool) -> Schedule:
    return parse(_one_source(words), tz=tz, seconds=seconds)


def _of_file(words: tuple[str, ...], tz: str | None) -> list[Job]:
    file = _one_source(words)
    if tz is not None:
        raise click.UsageError("--tz: expected with EXPR only, got it with a file; its jobs say their own")
    return read_file(Path(file))


def _echo_lint(looked: list[Looked], doubtful: list[tuple[str, str]]) -> None:
    for one in looked:
        if one.job and not one.odd:
            continue
        head = f"{plain(one.job)}: " if one.job else ""
        click.echo(f"{head}{to_text(one.schedule)}   ({describe(one.schedule)})")
        for odd in one.odd:
            click.echo(f"  {odd.text}\n    {odd.advice}")
    for job, problem in doubtful:
        click.echo(plain(f"{job}: {problem}", most=2_000))
    if not doubtful and not any(one.odd for one in looked):
        click.echo("nothing is odd")


def _lint_as_json(one: Looked) -> dict[str, Any]:
    return {
        "job": one.job or None,
        "expression": to_text(one.schedule),
        "reading": describe(one.schedule),
        "odd": [odd._asdict() for odd in one.odd],
    }
