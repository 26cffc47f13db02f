"""A verb that one front door has, all of them have; and a client asks a server for nothing that it does not know."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest

import onthedot as otd
from onthedot.client.blocking_client import BlockingClient
from onthedot.model.errors import OnTheDotError
from onthedot.operations.open_verbs import OpenVerbs
from onthedot.operations.verbs import Verbs
from onthedot.server.permissions import ROUTE_PERMISSIONS

VERBS = sorted(name for name, verb in inspect.getmembers(Verbs, inspect.iscoroutinefunction) if name[0] != "_")
NAP = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)))
RANGE = ("2026-01-01T00:00Z", "2026-01-02T00:00Z")

ASKED: dict[str, Callable[[Verbs], Awaitable[Any]]] = {
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


def test_every_verb_is_gone_over():
    assert list(ASKED) == VERBS


@pytest.mark.parametrize("door", [otd.Scheduler, OpenVerbs, otd.Client])
def test_a_door_has_every_verb_of_its_own(door: type[Verbs]):
    """A protocol's methods are inherited, and answer nothing: who has forgotten one would not be told."""
    forgotten = [name for name in VERBS if any(getattr(door, name) is vars(base).get(name) for base in _protocols())]
    assert forgotten == []


def _protocols() -> list[type]:
    return [base for base in Verbs.__mro__ if getattr(base, "_is_protocol", False)]


@pytest.mark.parametrize("door", [otd.BlockingScheduler, BlockingClient])
def test_a_door_that_blocks_has_every_verb(door: type):
    assert [name for name in VERBS if not callable(getattr(door, name, None))] == []


def _pattern(line: str) -> re.Pattern[str]:
    """What a line of the table matches: a place in braces is one part of a path, or with `:path` all the rest."""
    parts = re.split(r"\{(.+?)\}", line)
    return re.compile("".join(_place(part) if number % 2 else re.escape(part) for number, part in enumerate(parts)))


def _place(name: str) -> str:
    return ".+" if name.endswith(":path") else "[^/]+"


ROUTES = [_pattern(line) for line in ROUTE_PERMISSIONS]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_asks_for_a_route_that_there_is(verb: str):
    asked: list[str] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.path}")
        return httpx2.Response(403, json={"title": "no", "status": 403, "detail": "not you", "error": "AccessDenied"})

    async with otd.Client("https://server", transport=httpx2.MockTransport(refuse)) as client, asyncio.timeout(10):
        with pytest.raises(OnTheDotError):
            await ASKED[verb](client)
    assert asked
    assert [line for line in asked if not any(route.fullmatch(line) for route in ROUTES)] == []
