"""Seals of the audit: an entry that is changed, removed or inserted outside of onthedot is detected and named."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.audit import KIND, Entry, record
from onthedot.access.audit_seals import SEALS, START, Head, append_seal, check, hash_of, head_of, read_head, read_seal
from onthedot.access.permissions import LOCAL
from onthedot.model.errors import DefinitionError
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from tests.behind import behind


async def fill(store: Store, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        await record(store, Entry(who=LOCAL, verb=f"v{number}", object="o"))


async def seal(store: Store) -> Head:
    """Seal all entries that have no seal yet, as upkeep does."""
    seals = await store.documents.list_appended(SEALS, limit=1_000)
    head = head_of(seals[-1]) if seals else START
    newest = read_seal(seals[-1]) if seals else None
    entries = await store.documents.list_appended(KIND, after=newest.last if newest else 0, limit=1_000)
    await append_seal(store, head, entries)
    [added] = await store.documents.list_appended(SEALS, after=head.number)
    return head_of(added)


async def sealed(store: Store) -> Head:
    """Nine entries under three seals, and two entries without a seal."""
    head = START
    for first in (0, 3, 6):
        await fill(store, 3, first)
        head = await seal(store)
    await fill(store, 2, 9)
    return head


async def test_an_unchanged_audit_passes_the_check(stores: tuple[Store, Store]):
    head = await sealed(stores[0])
    checked = await check(stores[1])
    assert checked == (9, 2, head, None)
    assert await check(stores[1], known=head) == checked
    assert await check(stores[1], known=START) == checked
    assert read_head(str(head)) == head


async def test_an_empty_audit_passes_the_check(stores: tuple[Store, Store]):
    assert await check(stores[0]) == (0, 0, START, None)


async def test_when_two_nodes_seal_at_once_one_seal_is_kept(stores: tuple[Store, Store]):
    one, other = stores
    await fill(one, 2)
    entries = await one.documents.list_appended(KIND)
    first = await append_seal(one, START, entries[:1])
    assert await append_seal(other, START, entries) == first
    assert (await check(one))[:2] == (1, 1)


# ── changes made in the database itself ──────────────────────────────────────────────────────────────────────


class DirectSql:
    """Changes records in the database file, without onthedot."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, statement: str, *values: object) -> None:
        db = sqlite3.connect(self._path, timeout=10)
        with db:
            assert db.execute(statement, values).rowcount, "nothing was changed"
        db.close()


CHANGED = """UPDATE entries SET body = replace(body, '"v4"', '"v5"') WHERE kind = 'audit' AND number = 5"""
CASES: dict[str, tuple[list[str], str]] = {
    "a text": ([CHANGED], "entry 5 was changed"),
    "an instant": (["UPDATE entries SET written_at = written_at - 1 WHERE kind = 'audit' AND number = 7"],
                   "entry 7 was changed"),
    "the first": (["DELETE FROM entries WHERE kind = 'audit' AND number = 1"], "entry 1 was removed"),
    "one between": (["DELETE FROM entries WHERE kind = 'audit' AND number = 5"], "entry 5 was removed"),
    "the last of a seal": (["DELETE FROM entries WHERE kind = 'audit' AND number = 9"], "entry 9 was removed"),
    "all from one on": (["DELETE FROM entries WHERE kind = 'audit' AND number >= 4"], "entry 4 was removed"),
    "all": (["DELETE FROM entries WHERE kind = 'audit'"], "entry 1 was removed"),
    "one moved": (["UPDATE entries SET number = 100 WHERE kind = 'audit' AND number = 2"], "entry 2 was removed"),
    "two exchanged": (["UPDATE entries SET number = 100 WHERE kind = 'audit' AND number = 2",
                       "UPDATE entries SET number = 2 WHERE kind = 'audit' AND number = 3",
                       "UPDATE entries SET number = 3 WHERE kind = 'audit' AND number = 100"], "entry 2 was changed"),
    "the first of two faults": ([CHANGED, "DELETE FROM entries WHERE kind = 'audit' AND number = 8"],
                                "entry 5 was changed"),
    "a seal": (["UPDATE entries SET written_at = 1 WHERE kind = 'audit.seals' AND number = 2"],
               "seal 3 does not follow seal 2"),
    "a seal's text": (["UPDATE entries SET body = '{}' WHERE kind = 'audit.seals' AND number = 2"],
                      "seal 2 cannot be read"),
    "a seal removed": (["DELETE FROM entries WHERE kind = 'audit.seals' AND number = 2"],
                       "seal 3 does not follow seal 1"),
    "the first seal removed": (["DELETE FROM entries WHERE kind = 'audit.seals' AND number = 1"],
                               "seal 2 does not follow the beginning"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_change_in_the_database_file_is_detected(tmp_path: Path, name: str):
    statements, told = CASES[name]
    store = await SqliteStore.open(tmp_path / "otd.db")
    try:
        await sealed(store)
        for statement in statements:
            DirectSql(tmp_path / "otd.db")(statement)
        checked = await check(store)
        assert str(checked.fault).startswith(told)
    finally:
        await store.close()


async def test_an_inserted_entry_is_detected(tmp_path: Path):
    """Numbers may have gaps, so an entry can be inserted between two others."""
    store, execute = await SqliteStore.open(tmp_path / "otd.db"), DirectSql(tmp_path / "otd.db")
    try:
        await fill(store, 1)
        execute("UPDATE entries SET number = 5 WHERE kind = 'audit'")
        await fill(store, 2, 1)
        await seal(store)
        assert (await check(store)).fault is None
        execute("INSERT INTO entries VALUES ('audit', 3, NULL, '{}', 0)")
        assert str((await check(store)).fault) == "entry 3 was inserted"
    finally:
        await store.close()


async def test_entries_removed_together_with_their_seals_are_detected_by_a_noted_head(tmp_path: Path):
    store, execute = await SqliteStore.open(tmp_path / "otd.db"), DirectSql(tmp_path / "otd.db")
    try:
        head = await sealed(store)
        execute("DELETE FROM entries WHERE kind = 'audit' AND number > 6")
        execute("DELETE FROM entries WHERE kind = 'audit.seals' AND number > 2")
        assert (await check(store)).fault is None  # the store alone cannot know
        assert str((await check(store, known=head)).fault).startswith("seal 3 was noted, and is gone")
        await fill(store, 3, 6)
        await seal(store)
        assert str((await check(store, known=head)).fault).startswith("seal 3 is not the one that was noted")
    finally:
        await store.close()


async def test_an_entry_changed_together_with_its_seal_is_detected_by_the_next_seal():
    store = MemoryStore()
    await sealed(store)
    behind(store, """UPDATE entries SET body = replace(body, '"v4"', '"v0"') WHERE kind = 'audit' AND number = 5""")
    [entry] = [entry for entry in await store.documents.list_appended(KIND) if entry.number == 5]
    seal_ = json.loads((await store.documents.list_appended(SEALS))[1].body)
    seal_["entries"][1][1] = hash_of(entry)
    behind(store, "UPDATE entries SET body = ? WHERE kind = 'audit.seals' AND number = 2", json.dumps(seal_))
    assert str((await check(store)).fault).startswith("seal 3 does not follow seal 2")


@given(st.data())
async def test_the_first_changed_entry_is_named(data: st.DataObject):
    store = MemoryStore()
    await sealed(store)
    numbers = [entry.number for entry in await store.documents.list_appended(KIND)]
    place = data.draw(st.integers(0, 8))
    number = numbers[place]
    if data.draw(st.booleans(), label="removed"):
        behind(store, "DELETE FROM entries WHERE kind = 'audit' AND number = ?", number)
        del numbers[place]
        told = "removed"
    else:
        body = data.draw(st.sampled_from(["{}", "[1]", '"other"']))
        behind(store, "UPDATE entries SET body = ? WHERE kind = 'audit' AND number = ?", body, number)
        told = "changed"
    later = data.draw(st.integers(place, len(numbers) - 1))
    if later > place:
        behind(store, "UPDATE entries SET written_at = 1 WHERE kind = 'audit' AND number = ?", numbers[later])
    assert str((await check(store)).fault) == f"entry {number} was {told}"


@pytest.mark.parametrize(
    "text", ["", "7", "7:", ":", "x:" + "0" * 64, "7:" + "G" * 64, "7:" + "0" * 63, "²:" + "0" * 64]
)
def test_an_invalid_head_is_refused(text: str):
    with pytest.raises(DefinitionError, match="head: expected a seal's number and hash"):
        read_head(text)
