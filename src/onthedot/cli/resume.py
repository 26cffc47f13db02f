"""`onthedot resume`: let a paused job go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server, with_utc

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs
    from onthedot.stores.values import Resumed

Missed = Literal["none", "last", "all"]


@click.command(cls=Command, short_help="Let a paused job go on.")
@click.argument("job")
@click.option(
    "--missed", type=click.Choice(["none", "last", "all"]), default="none", show_default=True,
    help="Which of the slots that came during the pause still run.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only tell what it would do.")
@with_namespace
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def command(
    job: str, missed: Missed, dry_run: bool, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Let JOB go on. It lists what becomes of the slots of the pause and of the next moments; runs that were held are
    free. A job that is not paused is left alone.

    \b
    Examples:
      onthedot resume nightly_report
      onthedot resume nightly_report --missed last --dry-run
    """
    from onthedot.cli.asking import ask

    url = store_url(store, db)
    was_paused, resumed = ask(url, lambda verbs: _resume(verbs, job, missed, dry_run), namespace=namespace)
    if as_json:
        told = {"job": job, "namespace": namespace, "dry_run": dry_run, "was_paused": was_paused}
        click.echo(json.dumps(told | _as_json(resumed), indent=2))
    else:
        click.echo("\n".join(_lines(job, was_paused, dry_run, resumed)))


async def _resume(verbs: Verbs, job: str, missed: Missed, dry_run: bool) -> tuple[bool, Resumed]:
    from onthedot.model.job import JobState

    record = await verbs.get_job(job)
    resumed = await verbs.resume(job, missed=missed, dry_run=dry_run)
    return record is not None and record.state is JobState.PAUSED, resumed


def _lines(job: str, was_paused: bool, dry_run: bool, resumed: Resumed) -> list[str]:
    from onthedot.cli.words import reader_span, reader_time
    from onthedot.observe.formats import count, plain

    if not was_paused:
        return [f"job {plain(job)} is not paused"]
    free = f"{count(resumed.released, 'held run')} free"
    return [
        f"job {plain(job)} {'would go on' if dry_run else 'goes on'}: {free}",
        *(
            f"  skipped: {count(skip.count, 'slot')} {reader_span(skip.first, skip.last)}: {plain(skip.reason)}"
            for skip in resumed.skips
        ),
        *(f"  runs: the slot at {reader_time(slot)}" for slot in resumed.slots),
    ]


def _as_json(resumed: Resumed) -> dict[str, Any]:
    from onthedot.observe.formats import iso

    return {
        "slots": [iso(slot) for slot in resumed.slots],
        "skips": [
            {"first": iso(skip.first), "last": iso(skip.last), "count": skip.count, "reason": skip.reason}
            for skip in resumed.skips
        ],
        "released": resumed.released,
    }
