"""Attacks through the verbs: every parameter and every text of a definition is treated as data."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import onthedot as otd
from onthedot.model.job import Call, Cron, Job
from tests.outside.attacks import ATTACKS, CANARY

# Harmless arguments for the other parameters, and the types of parameters that take no text.
BENIGN: dict[str, Any] = {
    "job": "echo", "run_id": 1, "shards": 2, "to": "+1h", "start": "2026-01-01T00:00", "end": "2026-01-02T00:00",
    "jobs": ("echo",), "timeout": "10ms", "source": "here", "node": "a", "queue": "mail", "weights": {},
    "run_ids": (1,),
}  # fmt: skip
BENIGN_OF: dict[str, dict[str, Any]] = {"apply": {"jobs": ()}}
NOT_TEXT = {
    "int", "int | None", "bool", "datetime | None", "Iterable[RunState] | None", "Job", "Iterable[Job]", "Rate | None",
    "RunHandle | int", "RunHandle | int | Iterable[RunHandle | int]",
}  # fmt: skip
SHAPES: dict[str, Callable[[str], Any]] = {
    "str": lambda text: text,
    "str | None": lambda text: text,
    "Missed": lambda text: text,
    "Asked": lambda text: text,
    "To": lambda text: text,
    "Duration | None": lambda text: text,
    "datetime | str": lambda text: text,
    "datetime | str | None": lambda text: text,
    "Mapping[str, int] | None": lambda text: {text: 1},
    "Mapping[str, Any] | None": lambda text: {text: text, "nested": [text, {text: text}]},
    "Iterable[Asked]": lambda text: [text],
    "Sequence[str]": lambda text: [text],
    "Any": lambda text: text,  # a connection
}


def verbs() -> dict[str, inspect.Signature]:
    members = {name: member for kind in otd.Verbs.__mro__ for name, member in vars(kind).items()}
    found = {name: member for name, member in members.items() if inspect.isfunction(member) and name[0] != "_"}
    return {name: inspect.signature(member) for name, member in found.items()}


def attacked(name: str, text: str) -> Iterator[dict[str, Any]]:
    """The arguments of each call: the text in one parameter, and harmless values in the required ones."""
    parameters = {key: value for key, value in verbs()[name].parameters.items() if key != "self"}
    benign = BENIGN | BENIGN_OF.get(name, {})
    needed = {key: benign[key] for key, value in parameters.items() if value.default is value.empty or key == "timeout"}
    for key, value in parameters.items():
        if value.annotation not in NOT_TEXT:
            yield needed | {key: SHAPES[value.annotation](text)}


def test_every_parameter_type_is_classified():
    """Add new types of parameters to NOT_TEXT or SHAPES, so that they are attacked as well."""
    parameters = [one for signature in verbs().values() for one in signature.parameters.values() if one.name != "self"]
    assert {one.annotation for one in parameters} - NOT_TEXT - SHAPES.keys() == set()


def program(url: str) -> otd.Scheduler:
    sched = otd.Scheduler(url, settings=otd.Settings(processes=1))

    @sched.job(schedule=otd.cron("0 9 1 1 *"))
    async def echo(**given: Any) -> dict[str, Any]:
        return given

    return sched


async def refused_or_done(call: Callable[[], Awaitable[Any]]) -> None:
    """Call the verb. It may only fail with errors of onthedot or a time-out."""
    try:
        await call()
    except (otd.OnTheDotError, TimeoutError):
        return


@pytest.mark.parametrize("url", ["memory:", "sqlite:///outside.db"])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_every_verb_treats_attacks_as_text(attack, url):
    text = ATTACKS[attack]
    async with program(url) as sched:
        for name in verbs():
            if name == "put":
                continue
            for arguments in attacked(name, text):
                await refused_or_done(partial(getattr(sched, name), **arguments))


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_arguments_arrive_as_they_were_sent(attack, isolation):
    text = ATTACKS[attack]
    given = {text: text, "handler": text, "ctx": [text], "nested": {text: [text]}}
    sched = otd.Scheduler("sqlite:///outside.db", settings=otd.Settings(processes=1))
    sched.job(name="echo", isolation=isolation)(echoes)
    async with sched:
        run = await sched.submit("echo", given, key=text)
        assert await run.result(timeout="20s") == given


def echoes(**given: Any) -> dict[str, Any]:
    return given


def definitions(text: Any) -> Iterator[Callable[[], Job]]:
    """Jobs with this text in one field each."""
    plain = Job(name="evil", task=Call(handler="echo"))
    for field in fields(Job):
        if field.name in ("name", "namespace", "owner", "queue", "share", "priority", "on", "assignment", "isolation"):
            yield partial(replace, plain, **{field.name: text})
    yield lambda: replace(plain, task=Call(handler=text))
    yield lambda: replace(plain, task=Call(handler=text), isolation="process")
    yield lambda: replace(plain, args={text: text})
    yield lambda: replace(plain, labels=frozenset({text}))
    yield lambda: replace(plain, after=otd.After(text))
    yield lambda: replace(plain, schedules=(Cron(expression=text),))
    yield lambda: replace(plain, schedules=(Cron(expression="@yearly", tz=text),))
    yield lambda: replace(plain, schedules=(Cron(expression="@yearly", id=text, args={text: text}),))
    yield lambda: replace(plain, schedules=(otd.parse(text),))
    yield lambda: replace(plain, retry=otd.Retry(2, on=(text,)))
    yield lambda: replace(plain, retry=otd.Retry(2, backoff=text))
    yield lambda: replace(plain, concurrency=otd.Limit(1, key=text, name=text))
    yield lambda: replace(plain, rate=otd.Rate(1, text))
    yield lambda: replace(plain, rate=otd.Rate(1, key=text, name=text))
    yield lambda: replace(plain, overlap=otd.Overlap(text))
    yield lambda: replace(plain, catch_up=otd.CatchUp(text))
    yield lambda: replace(plain, timeout=timedelta(seconds=1), guarantee=text)


@pytest.mark.parametrize("url", ["memory:", "sqlite:///outside.db"])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_every_text_of_a_definition_is_treated_as_data(attack, url):
    async with program(url) as sched:
        for make in definitions(ATTACKS[attack]):

            async def put(make: Callable[[], Job] = make) -> None:
                await sched.put(make())
                await (await sched.submit("evil")).result(timeout="20ms")

            await refused_or_done(put)


async def test_a_store_url_with_an_unknown_scheme_is_refused():
    for text in ATTACKS.values():
        with pytest.raises(otd.DefinitionError, match="store URL: expected"):
            await otd.Scheduler(text).start()


def test_the_canary_can_be_imported():
    """Otherwise no test here could fail."""
    assert importlib.util.find_spec(CANARY) is not None
