"""The audit: every change is recorded and read back, without values of arguments, secrets or keys."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.audit import KIND, Entry, Recorded, read, read_newest, record, without_values
from onthedot.access.keys import issue
from onthedot.access.permissions import ANONYMOUS, LOCAL, Grant, Principal, Role
from onthedot.stores import documents
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.sql.store import SqlDocuments
from tests.access.clocks import START

CANARY = "c4nary sings"


def principal(**options: Any) -> Principal:
    return Grant(role=Role.ADMIN, **options).principal("key", "0af", "ci")


async def test_a_recorded_entry_is_read_back(stores: tuple[Store, Store]):
    one, other = stores
    entry = Entry(
        who=principal(), verb="jobs.pause", object="job/default/report", before={"state": "active"},
        after={"state": "paused"}, namespace="default", owner="ann", request_id="r-1", source="10.0.0.7",
    )  # fmt: skip
    number = await record(one, entry, now=START)
    assert await read(other) == [
        Recorded(
            number, START, "key", "0af", "ci", "10.0.0.7", "jobs.pause", "job/default/report", "default", "ann",
            {"state": "active"}, {"state": "paused"}, "r-1",
        )
    ]  # fmt: skip


@pytest.mark.parametrize("others", [0, 3])
async def test_the_newest_entries_can_be_read(stores: tuple[Store, Store], others: int):
    one, other = stores
    assert await read_newest(other, limit=3) == []
    for n in range(10):
        await record(one, Entry(who=LOCAL, verb=f"v{n}", object="o"))
        for _ in range(others):  # other lists may leave gaps between the audit's numbers
            await one.documents.append_documents("else", ["{}"])
        expected = [f"v{number}" for number in range(n + 1)][-3:]
        assert [entry.verb for entry in await read_newest(other, limit=3)] == expected
    assert await read_newest(other, limit=100) == await read(other)


class Counting(SqlDocuments):
    """Counts reads of lists, and spreads the numbers of their entries by `gap`."""

    rows = calls = 0
    gap = 1

    async def list_appended(self, kind: str, *, after: int = 0, limit: int | None = None) -> list[documents.Entry]:
        plain: list[documents.Entry] = await super().list_appended(kind, after=after // self.gap, limit=limit)
        self.calls += 1
        self.rows += len(plain)
        return [entry._replace(number=entry.number * self.gap) for entry in plain]


@pytest.mark.parametrize("gap", [1, 1_000])
async def test_reading_the_newest_does_not_slow_down_as_the_list_grows(gap: int):
    store = MemoryStore()
    store.documents = counting = Counting(store.database)
    counting.gap = gap
    for n in range(3_000):
        await record(store, Entry(who=LOCAL, verb=f"v{n}", object="o"))
    newest = await read_newest(store, limit=10)
    assert [entry.verb for entry in newest] == [f"v{n}" for n in range(2_990, 3_000)]
    assert counting.rows < 150
    assert counting.calls < 100


async def test_entries_are_read_page_by_page(stores: tuple[Store, Store]):
    numbers = [await record(stores[0], Entry(who=LOCAL, verb=f"v{n}", object="o")) for n in range(5)]
    first = await read(stores[1], limit=2)
    rest = await read(stores[1], after=first[-1].number)
    assert [entry.number for entry in [*first, *rest]] == numbers
    assert [entry.verb for entry in [*first, *rest]] == [f"v{n}" for n in range(5)]


async def test_an_entry_recorded_again_after_a_lost_answer_is_stored_once(stores: tuple[Store, Store]):
    entry = Entry(who=LOCAL, verb="keys.create", object="key/1", request_id="r")
    assert await record(stores[0], entry) == await record(stores[1], entry)
    await record(stores[0], Entry(who=LOCAL, verb="keys.create", object="key/1", request_id="r"))
    assert len(await read(stores[0])) == 2  # a repeated request id hides no entry


async def test_entries_recorded_at_once_are_all_stored(stores: tuple[Store, Store]):
    entries = [Entry(who=LOCAL, verb="v", object=str(number)) for number in range(20)]
    await asyncio.gather(*(record(stores[n % 2], entry) for n, entry in enumerate(entries)))
    assert sorted(entry.object for entry in await read(stores[0])) == sorted(map(str, range(20)))


async def test_values_and_secrets_are_not_recorded():
    store = MemoryStore()
    issued = await issue(store, "ci", Grant(role=Role.VIEWER))
    definition = {
        "name": "report",
        "args": {"region": CANARY, "list": [CANARY], "deep": {"er": CANARY}, "none": None},
        "schedules": [{"cron": "@daily", "args": {"a": CANARY}}],
        "task": {
            "argv": ["backup", "--all"], "env": {"A": CANARY}, "headers": {"Authorization": f"Bearer {CANARY}"},
            "body": CANARY, "url": f"https://x/{issued.text}",
        },
        "password": CANARY, "Token": {"a": CANARY}, issued.text: 1,
    }  # fmt: skip
    entry = Entry(
        who=ANONYMOUS, verb="jobs.put", object=f"job/{issued.text}", before=definition, after=[definition],
        request_id=issued.text, source=f"x {issued.text}", namespace=issued.text, owner=issued.text,
    )  # fmt: skip
    await record(store, entry)
    [stored] = await store.documents.list_appended(KIND)
    assert CANARY not in stored.body
    assert issued.text.partition(".")[2] not in stored.body
    [seen] = await read(store)
    assert seen.after == [seen.before]
    assert seen.before["args"] == {"region": "…", "list": "…", "deep": {"er": "…"}, "none": None}
    assert seen.before["schedules"] == [{"cron": "@daily", "args": {"a": "…"}}]
    assert seen.before["task"]["argv"] == ["backup", "--all"]
    assert (seen.who_kind, seen.who_name) == ("nobody", "anonymous")


TEXTS = st.text(max_size=8) | st.sampled_from(["args", "Env", "password", "name"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(JSON)
def test_any_value_becomes_json_and_removing_values_twice_changes_nothing(value: Any):
    once = without_values(value)
    assert json.loads(json.dumps(once)) == once
    assert without_values(once) == once


@given(st.dictionaries(TEXTS, JSON, max_size=3))
def test_arguments_keep_their_names_and_lose_their_values(arguments: dict[str, Any]):
    def values(found: Any) -> list[Any]:
        return [each for inner in found.values() for each in values(inner)] if isinstance(found, dict) else [found]

    assert {str(value) for value in values(without_values({"args": arguments}))} <= {"…", "None"}


@pytest.mark.parametrize(
    "value",
    [
        "x" * 100_000,
        {"x" * 70_000: 1},
        ["é"] * 30_000,
        "\ud800 \0",
        1e400,
        float("nan"),
        10**5_000,
        {1: {2, 3}},
        object,
    ],
    ids=["long", "long name", "many", "no text", "infinite", "no number", "huge", "set", "class"],
)
async def test_an_entry_with_any_content_is_recorded(stores: tuple[Store, Store], value: Any):
    entry = Entry(who=LOCAL, verb="v" * 9_000, object="\ud800\0" * 9_000, before=value, after=value, source="s" * 9_000)
    number = await record(stores[0], entry)
    [seen] = await read(stores[1])
    assert (seen.number, len(seen.verb), seen.verb[-1]) == (number, 400, "…")
    await record(stores[0], entry)


async def test_deeply_nested_values_are_cut():
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    store = MemoryStore()
    await record(store, Entry(who=LOCAL, verb="v", object="o", after=deep))
    assert "end" not in str(await read(store))


async def test_a_principal_reads_only_entries_about_objects_it_can_see():
    store = MemoryStore()
    for namespace, owner in (("", ""), ("a", "ann"), ("a", "bob"), ("b", "ann")):
        await record(store, Entry(who=LOCAL, verb="v", object=f"{namespace}/{owner}", namespace=namespace, owner=owner))

    async def seen(**options: Any) -> list[str]:
        return [entry.object for entry in await read(store, by=principal(**options), limit=2)]

    assert [entry.object for entry in await read(store)] == ["/", "a/ann", "a/bob", "b/ann"]
    assert await seen(namespaces=("a",)) == ["a/ann", "a/bob"]
    assert await seen(namespaces=("b",)) == ["b/ann"]
    assert await seen(owner="ann", only_own=True) == ["a/ann", "b/ann"]


@pytest.mark.parametrize("body", ["{}", "[]", "3", '{"who": 1}', '{"who": {}}'])
async def test_a_damaged_entry_is_shown_as_unreadable(body: str):
    store = MemoryStore()
    [number] = await store.documents.append_documents(KIND, [body], now=START)
    [seen] = await read(store)
    assert (seen.number, seen.at, seen.verb) == (number, START, "unreadable")
    assert await read(store, by=principal(namespaces=("a",))) == []
