"""`onthedot dead list | show | replay | discard`: lists runs that failed for good, and repeats or discards them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onthedot.cli.connect import call, query
from onthedot.cli.errors import BadInput, Command, Group, on_this_store
from onthedot.cli.options import (
    ASK_ABOVE,
    RUN,
    check_range,
    store_url,
    with_debug,
    with_json,
    with_namespace,
    with_range,
    with_server,
)
from onthedot.cli.runs import follow_run
from onthedot.cli.terminal import echo_more, echo_table, in_zone, moment, reader_time
from onthedot.clock import Micros, SystemClock, to_micros
from onthedot.model.errors import DefinitionError, StateError, UnknownRun
from onthedot.model.events import Event, RunsReplayed
from onthedot.model.policies import Rate
from onthedot.model.run import RunRecord
from onthedot.observe.formats import count, iso, plain
from onthedot.observe.json_fields import run_fields
from onthedot.operations.dead_letters import DeadLetters, Replayed, is_letter

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs

_FEW = 10
"""How many new runs are named one by one."""

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def dead() -> None:
    """Dead letters: runs that failed for good and wait for a decision. They are grouped by a fingerprint of their
    error.

    \b
    Examples:
      onthedot dead list
      onthedot dead show 3f9a1c0b77e2
      onthedot dead replay 41
      onthedot dead replay --fingerprint 3f9a1c0b77e2 --rate 10/s --dry-run
      onthedot dead discard --job nightly_report --why "the supplier is gone"
    """


def with_box(limit: int) -> Callable[[F], F]:
    """The options that select dead letters."""

    def add(function: F) -> F:
        for option in reversed(
            (
                click.option("--job", metavar="NAME", help="Only of this job."),
                with_range("what ended"),
                click.option(
                    "--limit", type=click.IntRange(1), default=limit, show_default=True, help="At most so many."
                ),
            )
        ):
            function = option(function)
        return with_namespace(function)

    return add


def with_fingerprint(function: F) -> F:
    """`--fingerprint`."""
    return click.option("--fingerprint", metavar="TEXT", help="Only with this error ('dead list').")(function)


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dead.command("list", cls=Command, short_help="List dead letters by error.")
@with_box(10_000)
@with_server
@with_json("a JSON array with one object per group")
@with_debug
def list_groups(store: str | None, db: str | None, as_json: bool, **asked: Any) -> None:
    """List dead letters by error, the latest first.

    \b
    Examples:
      onthedot dead list
      onthedot dead list --since yesterday
      onthedot dead list --job nightly_report --since -24h --json
    """
    box = _box(asked)
    groups = query(store_url(store, db), lambda verbs: verbs.dead_letters(**box), namespace=asked["namespace"])
    if as_json:
        click.echo(json.dumps([_group_as_json(group) for group in groups], indent=2))
    else:
        _echo_groups(groups, narrowed=_is_narrowed(asked))
        if sum(group.count for group in groups) >= asked["limit"]:
            click.echo(f"only the newest {asked['limit']} dead letters are counted; --limit sets how many")


@dead.command(cls=Command, short_help="Show the dead runs with one error.")
@click.argument("fingerprint")
@with_box(20)
@with_server
@with_json("a JSON array with one object per run")
@with_debug
def show(store: str | None, db: str | None, as_json: bool, **asked: Any) -> None:
    """Show the dead letters with this FINGERPRINT, the newest first. 'onthedot show RUN' shows everything about one.

    \b
    Examples:
      onthedot dead show 3f9a1c0b77e2
      onthedot dead show 3f9a1c0b77e2 --limit 1000 --json | jq .[].args
    """
    box = _box(asked)
    box["limit"] += 1
    found = query(store_url(store, db), lambda verbs: verbs.dead_runs(**box), namespace=asked["namespace"])
    runs = found[: asked["limit"]]
    if as_json:
        click.echo(json.dumps([_run_as_json(run) for run in runs], indent=2))
    elif not runs:
        raise BadInput(
            f"FINGERPRINT: expected one of 'onthedot dead list', got {asked['fingerprint']!r}, which no dead letter has"
        )
    else:
        _echo_runs(runs)
    if len(runs) < len(found):
        echo_more(len(runs), "dead letter", "--limit sets how many", as_json=as_json)


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def with_choice(function: F) -> F:
    """The options that select dead letters to change: some by number, those that match, or all."""
    function = with_box(10_000)(with_fingerprint(function))
    function = click.option("--all", "everything", is_flag=True, help="All dead letters of the namespace.")(function)
    function = click.option("--dry-run", is_flag=True, help="Show what it would do, and change nothing.")(function)
    more = f"Do not ask, even for more than {ASK_ABOVE}."
    function = click.option("--yes", is_flag=True, help=more)(function)
    return click.argument("run_ids", nargs=-1, type=RUN, metavar="[RUN]...")(function)


@dead.command(cls=Command, short_help="Run dead letters again.")
@with_choice
@click.option("--rate", "pace", metavar="N/TIME", help="Start them at this rate: 10/s, 100/m, 1/30s.")
@click.option("-f", "--follow", is_flag=True, help="Print the output of the new run until it ends. With one RUN only.")
@with_server
@with_json("one JSON object; with --follow one per line: the output of the new run, and at last that run")
@with_debug
def replay(
    run_ids: tuple[int, ...],
    everything: bool,
    dry_run: bool,
    yes: bool,
    pace: str | None,
    follow: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run dead letters again: those with the numbers RUN, or all that match, the oldest first. Each gets one new run,
    with the arguments and the slot of the old one. A second replay makes no second run, and names the first one.

    --follow prints the output of the new run until it ends, and exits with 0 if the run succeeded, else 1. Ctrl-C stops
    following (130), and the run continues.

    \b
    Examples:
      onthedot dead replay 41 42
      onthedot dead replay 41 --follow
      onthedot dead replay --fingerprint 3f9a1c0b77e2 --rate 10/s --dry-run
      onthedot dead replay --job nightly_report --since -24h --yes
      onthedot dead replay --all --rate 100/m --json
    """
    rate = None if pace is None else _read_rate(pace)
    _check_choice(run_ids, everything, {**asked, "rate": pace, "dry-run": dry_run})
    if follow and len(set(run_ids)) != 1:
        raise click.UsageError(f"--follow: expected one RUN, got {len(set(run_ids)) or 'none'}")
    asks, box, url = _may_ask(yes or dry_run or as_json), _box(asked), store_url(store, db)

    async def work(verbs: Verbs) -> tuple[Replayed, list[str]]:
        if run_ids:
            return await _replay_these(verbs, run_ids)
        return await _replay_box(verbs, {**box, "rate": rate}, dry_run=dry_run, asks=asks), []

    tell = _tell if sys.stderr.isatty() else None
    done, lines = call(url, work, namespace=asked["namespace"], tell=tell)
    if not as_json:
        click.echo("\n".join(lines or [_in_words(done) + _named(done.run_ids)]), err=follow)
    elif not follow:
        click.echo(json.dumps(_replayed_as_json(done), indent=2))
    if follow:
        click.get_current_context().exit(follow_run(url, done.run_ids[0], as_json=as_json))


@dead.command(cls=Command, short_help="Discard dead letters.")
@with_choice
@click.option("--why", metavar="TEXT", default="", help="Why; it is kept with the runs.")
@with_server
@with_json("one JSON object")
@with_debug
def discard(
    run_ids: tuple[int, ...],
    everything: bool,
    dry_run: bool,
    yes: bool,
    why: str,
    store: str | None,
    db: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Discard dead letters: those with the numbers RUN, or all that match. The runs stay in the history as dead, with
    the reason.

    \b
    Examples:
      onthedot dead discard 41 42 --why "sent by hand"
      onthedot dead discard --fingerprint 3f9a1c0b77e2 --yes
      onthedot dead discard --all --until 2026-01-01T00:00Z --dry-run
    """
    _check_choice(run_ids, everything, asked)
    asks, box = _may_ask(yes or dry_run or as_json), _box(asked)

    async def work(verbs: Verbs) -> int:
        ids = list(run_ids) or [run.id for run in await verbs.dead_runs(**{**box, "limit": box["limit"] + 1})]
        if not run_ids and len(ids) > box["limit"]:
            raise BadInput(
                f"--limit: expected at most {box['limit']} dead letters, got more; choose fewer, or raise the limit"
            )
        if asks and len(ids) > ASK_ABOVE:
            click.confirm(f"{count(len(ids), 'dead letter')} would be discarded. Go on?", abort=True)
        if not dry_run:
            return await verbs.discard(ids, why=why)
        found = [await verbs.get_run(run_id) for run_id in run_ids]
        return len(ids) if not run_ids else sum(run is not None and is_letter(run) for run in found)

    done = call(store_url(store, db), work, namespace=asked["namespace"])
    if as_json:
        click.echo(json.dumps({"discarded": done, "dry_run": dry_run}, indent=2))
    else:
        click.echo(f"{count(done, 'dead letter')} {'would be ' if dry_run else ''}discarded")
    if run_ids and done < len(set(run_ids)):
        raise BadInput(f"RUN: expected dead letters only, got {len(set(run_ids)) - done} that are none")


async def _replay_these(verbs: Verbs, run_ids: tuple[int, ...]) -> tuple[Replayed, list[str]]:
    """Replay these runs. Return the result, and a line about each."""
    ids: list[int] = []
    lines: list[str] = []
    for run_id in dict.fromkeys(run_ids):
        try:
            run = await verbs.replay(run_id)
        except (StateError, UnknownRun) as error:
            asked_for = f"; asked for before that: {', '.join(map(str, ids))}" if ids else ""
            raise BadInput(f"RUN: {error}{asked_for}") from error
        ids.append(run.id)
        if run.created:
            lines.append(f"run {run.id} of {plain(run.job)} is stored; it repeats run {run_id}")
        else:
            seen = f"run {run_id} was replayed before, as run {run.id}: no new run; 'onthedot show {run.id}' shows it"
            lines.append(on_this_store(seen))
    return Replayed(len(ids), run_ids=tuple(ids)), lines


async def _replay_box(verbs: Verbs, box: dict[str, Any], *, dry_run: bool, asks: bool) -> Replayed:
    if asks:
        preview = await verbs.replay_many(**box, dry_run=True)
        if preview.runs > ASK_ABOVE:
            click.confirm(f"{_in_words(preview)}. Go on?", abort=True)
    return await verbs.replay_many(**box, dry_run=dry_run)


def _tell(event: Event) -> None:
    """Print the progress, on one line that is overwritten."""
    if isinstance(event, RunsReplayed):
        click.echo(f"\r{event.runs} of {event.of} asked for again", err=True, nl=event.runs == event.of)


# ── the selection ────────────────────────────────────────────────────────────────────────────────────────────────


def _may_ask(settled: bool) -> bool:
    return not settled and sys.stdin.isatty() and sys.stdout.isatty()


def _is_narrowed(asked: dict[str, Any]) -> bool:
    """Return whether the options select only some of the dead letters."""
    return asked["namespace"] != "default" or any(asked[name] is not None for name in ("job", "since", "until"))


def _check_choice(run_ids: tuple[int, ...], everything: bool, asked: dict[str, Any]) -> None:
    """Refuse a selection that mixes numbers with filters. Also refuse one without either, unless `--all` is set."""
    narrowing = [name for name in ("job", "fingerprint", "since", "until") if asked.get(name)]
    alone = [f"--{name}" for name in (*narrowing, "rate", "dry-run") if asked.get(name)]
    if run_ids and (everything or alone):
        raise click.UsageError(f"expected RUN or what matches, got both; leave out {', '.join(alone) or '--all'}")
    if not (run_ids or everything or narrowing):
        raise click.UsageError("expected RUN, or --job, --fingerprint, --since or --until, or --all; got none of them")


def _box(asked: dict[str, Any]) -> dict[str, Any]:
    """The selection as arguments of the verbs."""
    check_range(asked["since"], asked["until"])
    instants = {name: asked[name] for name in ("since", "until")}
    chosen = {"fingerprint": asked["fingerprint"]} if "fingerprint" in asked else {}
    return {"job": asked["job"], **chosen, **instants, "limit": asked["limit"]}


def _read_rate(text: str) -> Rate:
    """Read `--rate`.

    >>> _read_rate("10/s").per, _read_rate("1/30s").per
    (datetime.timedelta(seconds=1), datetime.timedelta(seconds=30))
    """
    most, slash, per = text.partition("/")
    if not slash or not most.isdecimal() or not per or len(most) > 9:
        raise BadInput(f"--rate: expected N/TIME like '10/s' or '1/30s', got {text!r}")
    try:
        return Rate(int(most), per if per[0].isdecimal() else f"1{per}")
    except DefinitionError as error:
        raise BadInput(f"--rate: expected N/TIME like '10/s' or '1/30s', got {text!r}: {error}") from error


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _echo_groups(groups: list[DeadLetters], *, narrowed: bool) -> None:
    if not groups:
        click.echo("no dead letters match" if narrowed else "there are no dead letters")
        return
    now = SystemClock().now()
    rows = [
        [
            group.fingerprint,
            group.job,
            str(group.count),
            moment(to_micros(group.first), now),
            moment(to_micros(group.last), now),
            str(group.example.id),
            group.error,
        ]
        for group in groups
    ]
    echo_table(["FINGERPRINT", "JOB", "COUNT", in_zone("FIRST", now), "LAST", "RUN", "ERROR"], rows)


def _echo_runs(runs: list[RunRecord]) -> None:
    now: Micros = SystemClock().now()
    rows = [
        [
            str(run.id),
            run.job,
            moment(run.ended_at or 0, now),
            str(run.attempts),
            run.args or "",
            run.error or run.reason,
        ]
        for run in runs
    ]
    echo_table(["RUN", "JOB", in_zone("ENDED", now), "TRIES", "ARGS", "ERROR"], rows)


def _group_as_json(group: DeadLetters) -> dict[str, Any]:
    return {
        "fingerprint": group.fingerprint,
        "job": group.job,
        "namespace": group.namespace,
        "error_type": group.error_type or None,
        "error": group.error,
        "count": group.count,
        "first": iso(to_micros(group.first)),
        "last": iso(to_micros(group.last)),
        "example": _run_as_json(group.example),
    }


def _run_as_json(run: RunRecord) -> dict[str, Any]:
    return {**run_fields(run), "args": None if run.args is None else json.loads(run.args)}


def _in_words(done: Replayed) -> str:
    return done.in_words(lambda at: reader_time(to_micros(at), exact=False))


def _named(run_ids: tuple[int, ...]) -> str:
    """Return the numbers of the new runs: all if they are few, else the first and the last.

    >>> print(_named((5, 6)), _named(()), _named(tuple(range(5, 105))))
    ; runs 5, 6  ; runs 5 to 104
    """
    if len(run_ids) > _FEW:
        return f"; runs {min(run_ids)} to {max(run_ids)}"
    numbers = ", ".join(map(str, run_ids))
    return f"; {'run' if len(run_ids) == 1 else 'runs'} {numbers}" if run_ids else ""


def _replayed_as_json(done: Replayed) -> dict[str, Any]:
    return {
        "letters": done.letters,
        "runs": done.runs,
        "without_job": done.without_job,
        "first_due": None if done.first_due is None else iso(to_micros(done.first_due)),
        "last_due": None if done.last_due is None else iso(to_micros(done.last_due)),
        "run_ids": list(done.run_ids),
        "dry_run": done.dry_run,
    }
