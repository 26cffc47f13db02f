"""All front doors have the same verbs, and the client calls only routes that the server has."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click
import httpx2
import pytest

import onthedot as otd
from onthedot.cli.main import cli
from onthedot.client.client import BlockingClient
from onthedot.model.errors import OnTheDotError
from onthedot.operations.open_verbs import OpenVerbs
from onthedot.operations.verbs import Verbs
from onthedot.server.permissions import ROUTE_PERMISSIONS

PAGE = Path(__file__).parents[2] / "docs" / "design" / "doors.md"
VERBS = sorted(name for name, verb in inspect.getmembers(Verbs, inspect.iscoroutinefunction) if name[0] != "_")
NAP = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)))
RANGE = ("2026-01-01T00:00Z", "2026-01-02T00:00Z")

READS_FIRST = ("submit_many", "replay")
"""For these verbs the client reads jobs or a run first, and sends the request afterwards."""

CALLS: dict[str, Callable[[Verbs], Awaitable[Any]]] = {
    "apply": lambda verbs: verbs.apply([NAP], source="a.yaml"),
    "backfill": lambda verbs: verbs.backfill("nap", *RANGE),
    "cancel": lambda verbs: verbs.cancel(1),
    "dead_letters": lambda verbs: verbs.dead_letters(),
    "dead_runs": lambda verbs: verbs.dead_runs(),
    "discard": lambda verbs: verbs.discard(1),
    "drain_node": lambda verbs: verbs.drain_node("web-1"),
    "get_job": lambda verbs: verbs.get_job("nap"),
    "get_run": lambda verbs: verbs.get_run(1),
    "history": lambda verbs: verbs.history(1),
    "list_jobs": lambda verbs: verbs.list_jobs(),
    "list_nodes": lambda verbs: verbs.list_nodes(),
    "list_queues": lambda verbs: verbs.list_queues(),
    "list_runs": lambda verbs: verbs.list_runs(),
    "list_skips": lambda verbs: verbs.list_skips(),
    "list_terms": lambda verbs: verbs.list_terms(),
    "logs": lambda verbs: verbs.logs(1),
    "move_next": lambda verbs: verbs.move_next("nap", to="+1h"),
    "pause": lambda verbs: verbs.pause("nap"),
    "pause_queue": lambda verbs: verbs.pause_queue("mail"),
    "put": lambda verbs: verbs.put(NAP),
    "remove": lambda verbs: verbs.remove("nap"),
    "replay": lambda verbs: verbs.replay(1),
    "replay_many": lambda verbs: verbs.replay_many(),
    "result": lambda verbs: verbs.result(1),
    "resume": lambda verbs: verbs.resume("nap"),
    "resume_queue": lambda verbs: verbs.resume_queue("mail"),
    "retry_run": lambda verbs: verbs.retry_run(1),
    "set_shards": lambda verbs: verbs.set_shards(2),
    "share_queue": lambda verbs: verbs.share_queue("mail", {"gold": 3}),
    "skip_next": lambda verbs: verbs.skip_next("nap"),
    "submit": lambda verbs: verbs.submit("nap"),
    "submit_many": lambda verbs: verbs.submit_many(["nap"]),
    "trigger": lambda verbs: verbs.trigger("nap"),
}


def test_the_list_of_calls_has_every_verb():
    assert list(CALLS) == VERBS


@pytest.mark.parametrize("door", [otd.Scheduler, OpenVerbs, otd.Client])
def test_a_door_implements_every_verb_itself(door: type[Verbs]):
    """The methods of the protocol are inherited and return None, so that a missing one would not raise an error."""
    assert [name for name in VERBS if getattr(door, name) is getattr(Verbs, name)] == []


@pytest.mark.parametrize("door", [otd.BlockingScheduler, BlockingClient])
def test_a_blocking_door_has_every_verb(door: type):
    assert [name for name in VERBS if not callable(getattr(door, name, None))] == []


# ── the table of docs/design/doors.md ─────────────────────────────────────────────────────────────────────────────────


HELPERS = (
    "find_jobs",
    "write_checked",
    "join_submit",
    "submit_together",
    "read_again",
)  # the last two are `submit` with a connection


class Offer(NamedTuple):
    """A row of the table of verbs."""

    operation: str
    route: str
    commands: list[str]


def offers() -> dict[str, Offer]:
    _, _, rest = PAGE.read_text().partition("| Verb |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    cells = [[re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|")] for row in rows]
    return {verb: Offer(operation, route, commands) for [verb], [operation], [route], commands in cells}


OFFERS = offers()


def test_the_table_of_the_design_has_every_verb():
    assert sorted(OFFERS) == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_operation_a_route_and_commands(verb: str):
    offer = OFFERS[verb]
    module, _, name = offer.operation.partition(".")
    operation = getattr(importlib.import_module(f"onthedot.operations.{module}"), name)
    assert inspect.iscoroutinefunction(operation)
    assert next(iter(inspect.signature(operation).parameters.values())).annotation == "Session"
    assert offer.route in ROUTE_PERMISSIONS
    for line in offer.commands:
        command: click.Command | None = cli
        for word in line.split():
            assert isinstance(command, click.Group), line
            command = command.get_command(click.Context(command), word)
        assert command is not None, line
        assert not isinstance(command, click.Group), line


def test_every_operation_is_a_verb():
    offered = {offer.operation for offer in OFFERS.values()}
    modules = {offer.operation.partition(".")[0] for offer in OFFERS.values()}
    for module in modules:
        for name, one in vars(importlib.import_module(f"onthedot.operations.{module}")).items():
            if inspect.iscoroutinefunction(one) and one.__module__.endswith(module) and name[0] != "_":
                first = next(iter(inspect.signature(one).parameters.values()))
                assert first.annotation != "Session" or name in HELPERS or f"{module}.{name}" in offered


def test_no_door_is_more_than_two_classes_deep():
    for door in (otd.Scheduler, OpenVerbs, otd.Client, otd.BlockingScheduler, BlockingClient):
        assert len([base for base in door.__mro__ if base.__module__.startswith("onthedot")]) <= 3


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────────────────────


def _pattern(line: str) -> re.Pattern[str]:
    """Return a pattern for a route of the table: `{name}` matches one part of a path, `{name:path}` all the rest."""
    parts = re.split(r"\{(.+?)\}", line)
    return re.compile("".join(_named(part) if number % 2 else re.escape(part) for number, part in enumerate(parts)))


def _named(name: str) -> str:
    return ".+" if name.endswith(":path") else "[^/]+"


ROUTES = [_pattern(line) for line in ROUTE_PERMISSIONS]


@pytest.mark.parametrize("verb", VERBS)
async def test_the_client_calls_only_routes_that_the_server_has(verb: str):
    asked: list[str] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.path}")
        return httpx2.Response(403, json={"title": "no", "status": 403, "detail": "not you", "error": "AccessDenied"})

    async with otd.Client("https://server", transport=httpx2.MockTransport(refuse)) as client, asyncio.timeout(10):
        with pytest.raises(OnTheDotError):
            await CALLS[verb](client)
    assert asked
    assert any(_pattern(OFFERS[verb].route).fullmatch(line) for line in asked) or verb in READS_FIRST
    assert [line for line in asked if not any(route.fullmatch(line) for route in ROUTES)] == []
