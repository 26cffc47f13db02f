"""`onthedot show`: everything about one run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import RUN, store_url, with_debug, with_json, with_server, with_utc

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.clock import Micros
    from onthedot.model.run import AttemptRecord, RunRecord
    from onthedot.stores.protocol import Store
    from onthedot.stores.values import LogRecord, WaitReason


LOG_LINES = 20
"""How many lines of the newest log are shown, from its end."""


@dataclass(frozen=True)
class Shown:
    """A run with all that is known of it."""

    run: RunRecord
    standing: WaitReason | None  # of one that has not ended
    waits_for: list[str]
    attempts: list[AttemptRecord]
    logs: list[LogRecord]


@click.command(cls=Command, short_help="Show one run: why it waits, and each of its attempts.")
@click.argument("run_id", type=RUN, metavar="RUN")
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def command(run_id: int, store: str | None, db: str | None, as_json: bool) -> None:
    """Show everything about the run with the number RUN: what asked for it, what it waits for, and the five instants
    of each of its attempts (due, and how long after it: reserved, armed, started, ended). It only reads.

    \b
    Examples:
      onthedot show 41
      onthedot show 41 --json | jq .waits_for
    """
    from onthedot.cli.asking import ask_server
    from onthedot.cli.reading import read_store
    from onthedot.clock import SystemClock
    from onthedot.model.addresses import is_server

    now, url = SystemClock().now(), store_url(store, db)
    if is_server(url):
        shown = ask_server(url, lambda client: _ask(client, run_id))
    else:
        shown = read_store(url, lambda opened: _find(opened, run_id, now))
    if as_json:
        click.echo(json.dumps(_as_json(shown), indent=2))
    else:
        _echo(shown, now)


async def _find(store: Store, run_id: int, now: Micros) -> Shown:
    from onthedot.operations.why_waiting import why_waiting
    from onthedot.output.run_output import read_logs

    run = await store.queries.get_run(run_id)
    if run is None:
        raise BadInput(f"RUN: expected a stored run, got {run_id}; 'onthedot runs' lists them")
    standing = await store.queries.why_waiting(run_id)
    waits_for = await why_waiting(store, run, standing, now)
    return Shown(
        run, standing, waits_for, await store.queries.list_attempts(run_id), await read_logs(store, None, run_id)
    )


async def _ask(client: Client, run_id: int) -> Shown:
    from onthedot.client.views import standing

    run = await client.get_run(run_id)
    if run is None:
        raise BadInput(f"RUN: expected a stored run, got {run_id}; 'onthedot runs' lists them")
    stands, waits_for = await standing(client.server, run_id)
    return Shown(run, stands, waits_for, await client.history(run_id), await client.logs(run_id))


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _echo(shown: Shown, now: Micros) -> None:
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone
    from onthedot.observe.formats import plain

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
    """The end of the newest log: where it failed, if it did."""
    from onthedot.observe.formats import plain

    lines = log.text.splitlines()
    cut = ["…"] if len(lines) > LOG_LINES else []
    told = [f"  {plain(line, most=1_000)}" for line in [*cut, *lines[-LOG_LINES:]]]
    click.echo("\n".join([f"\nlog of attempt {log.attempt}:", *told]))


def _facts(shown: Shown, now: Micros) -> list[tuple[str, str]]:
    from onthedot.cli.runs import progress_in_words, reason_in_words, took
    from onthedot.cli.words import reader_time, relative

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
    from onthedot.cli.words import moment

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
    """The attempt that is going on, or is about to."""
    from onthedot.cli.words import moment
    from onthedot.model.run import RunState

    run, standing = shown.run, shown.standing
    if standing is None or not standing.node:
        return []
    number = run.attempts if run.state is RunState.RUNNING else run.attempts + 1
    instants = (standing.reserved_at, run.armed_at, run.running_since, None)
    due = moment(run.due_at, now)
    return [[str(number), str(run.state), standing.node, due, *(_after(at, run.due_at) for at in instants), ""]]


def _after(instant: Micros | None, due_at: Micros) -> str:
    from onthedot.observe.formats import length

    if instant is None:
        return "-"
    return f"{'+' if instant >= due_at else ''}{length(instant - due_at)}"


def _as_json(shown: Shown) -> dict[str, Any]:
    from onthedot.observe.formats import iso
    from onthedot.observe.json_lines import optional_iso, run_fields

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
