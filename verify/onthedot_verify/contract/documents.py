"""Checks of documents and append-only lists: each write names the version that was read, and lists only grow."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from onthedot.model.errors import DefinitionError, KeyConflict, UnknownJob
from onthedot.model.run import NewRun, submit_trigger
from onthedot.stores.documents import LIMIT, Document, Noting, PutDocument
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, raises


async def put(bench: Workbench, id: str, body: str, version: int = 0, kind: str = "note") -> PutDocument:
    return await bench.store.documents.put_document(kind, id, body, version=version, now=bench.now)


async def ids(bench: Workbench, kind: str = "note", after: str = "", limit: int = 100) -> list[str]:
    return [document.id for document in await bench.store.documents.list_documents(kind, after=after, limit=limit)]


@check
async def check_a_document_is_read_as_it_was_put(bench: Workbench) -> None:
    """`get_document` returns text, version and instant, or None if there is none. Each kind has its own ids."""
    body = json.dumps({"text": 'a "snow" ☃\n\\ \u0000 …', "list": [1, None, True]})
    made = await put(bench, "team/a b", body)
    assert made.accepted
    assert made.version > 0
    expected = Document("note", "team/a b", made.version, body, at(0))
    assert await bench.store.documents.get_document("note", "team/a b") == expected
    assert await bench.store.documents.list_documents("note") == [expected]
    assert await bench.store.documents.get_document("note", "team") is None
    assert await bench.store.documents.get_document("other", "team/a b") is None
    assert await bench.store.documents.list_documents("other") == []


@check
async def check_version_zero_only_creates(bench: Workbench) -> None:
    """Version 0 for an existing document gives its version and writes nothing. So does a replace of a missing one."""
    first = await put(bench, "a", "1")
    bench.turn(5)
    assert await put(bench, "a", "2") == PutDocument(False, first.version)
    assert await put(bench, "b", "2", version=first.version) == PutDocument(False, 0)
    assert await bench.store.documents.get_document("note", "a") == Document("note", "a", first.version, "1", at(0))
    assert await ids(bench) == ["a"]


@check
async def check_a_replace_needs_the_version_that_was_read(bench: Workbench) -> None:
    """The new version is higher. The version before it is refused."""
    first = await put(bench, "a", "1")
    bench.turn(5)
    second = await put(bench, "a", "2", version=first.version)
    assert second.accepted
    assert second.version > first.version
    assert await put(bench, "a", "3", version=first.version) == PutDocument(False, second.version)
    assert await put(bench, "a", "3", version=second.version + 1) == PutDocument(False, second.version)
    assert await bench.store.documents.get_document("note", "a") == Document("note", "a", second.version, "2", at(5))


@check
async def check_a_repeated_put_is_accepted(bench: Workbench) -> None:
    """The same text is accepted again under any version, and nothing is written."""
    first = await put(bench, "a", "1")
    bench.turn(5)
    assert await put(bench, "a", "1") == first
    second = await put(bench, "a", "2", version=first.version)
    bench.turn(9)
    assert await put(bench, "a", "2", version=first.version) == second
    assert await put(bench, "a", "2", version=second.version) == second
    assert await bench.store.documents.get_document("note", "a") == Document("note", "a", second.version, "2", at(5))


@check
async def check_a_delete_of_a_document_needs_the_version_that_was_read(bench: Workbench) -> None:
    """Another version stays. Deleting again is harmless."""
    first = await put(bench, "a", "1")
    second = await put(bench, "a", "2", version=first.version)
    assert await bench.store.documents.delete_document("note", "a", version=first.version) is False
    assert await ids(bench) == ["a"]
    assert await bench.store.documents.delete_document("note", "a", version=second.version) is True
    assert await bench.store.documents.get_document("note", "a") is None
    assert await ids(bench) == []
    assert await bench.store.documents.delete_document("note", "a", version=second.version) is True


@check
async def check_a_version_is_never_used_twice(bench: Workbench) -> None:
    """A version read before a document was deleted and created again does not fit the new one."""
    old = await put(bench, "a", "1")
    await bench.store.documents.delete_document("note", "a", version=old.version)
    new = await put(bench, "a", "2")
    assert new.version > old.version
    assert await put(bench, "a", "3", version=old.version) == PutDocument(False, new.version)
    assert await bench.store.documents.delete_document("note", "a", version=old.version) is False


@check
async def check_one_of_several_concurrent_writes_wins(bench: Workbench) -> None:
    """This holds for creating and for replacing. The stored text is the winner's."""
    made = await asyncio.gather(*(put(bench, "a", str(number)) for number in range(8)))
    [winner] = [number for number, answer in enumerate(made) if answer.accepted]
    found = await bench.store.documents.get_document("note", "a")
    assert found is not None
    assert (found.body, found.version) == (str(winner), made[winner].version)
    assert {answer.version for answer in made} == {found.version}
    again = await asyncio.gather(*(put(bench, "a", str(10 + number), found.version) for number in range(8)))
    assert [answer.accepted for answer in again].count(True) == 1


@check
async def check_a_write_changes_one_document_only(bench: Workbench) -> None:
    """Neither a replace nor a delete changes another document of the kind."""
    versions = {}
    for name in ("a", "b", "c"):
        put = await bench.store.documents.put_document("kind", name, '"first"', version=0, now=bench.now)
        versions[name] = put.version
    await bench.store.documents.put_document("kind", "a", '"second"', version=versions["a"], now=bench.now)
    assert await bench.store.documents.delete_document("kind", "c", version=versions["c"])
    kept = [(one.id, one.body) for one in await bench.store.documents.list_documents("kind")]
    assert kept == [("a", '"second"'), ("b", '"first"')]


@check
async def check_documents_are_listed_by_id(bench: Workbench) -> None:
    """They come in the order of their characters, page by page. Each page continues after an id."""
    names = ["B", "a", "a/b", "a0", "é", "z", "☃", "𝄞"]
    for name in reversed(names):
        await put(bench, name, "1")
    await put(bench, "m", "1", kind="notes")
    assert await ids(bench) == sorted(names)
    assert await ids(bench, limit=3) == sorted(names)[:3]
    assert await ids(bench, after="a", limit=2) == ["a/b", "a0"]
    assert await ids(bench, after="a-") == sorted(names)[2:]
    assert await ids(bench, after="𝄞") == []


@check
async def check_invalid_documents_are_refused(bench: Workbench) -> None:
    """A text that is no JSON or too long is refused, and so is an invalid kind or id. The error does not quote the
    text."""
    long = json.dumps("x" * (LIMIT - 2))
    assert (await put(bench, "long", long)).accepted
    found = await bench.store.documents.get_document("note", "long")
    assert found is not None
    assert found.body == long
    for body in (json.dumps("hush" * LIMIT), "hush", "", '"hush', '"\ud800 hush"', '"hush \0"'):
        with raises(DefinitionError) as told:
            await put(bench, "a", body)
        with raises(DefinitionError) as told_again:
            await bench.store.documents.append_documents("note", [body], now=bench.now)
        for error in (*told, *told_again):
            assert "body: expected" in str(error)
            assert "hush" not in str(error)
    for kind, id in (("Note", "a"), ("", "a"), ("a:b", "a"), ("note", ""), ("note", "a\nb"), ("note", "x" * 401)):
        with raises(DefinitionError):
            await put(bench, id, "1", kind=kind)
    assert await ids(bench) == ["long"]


@check
async def check_appended_texts_stay_in_order(bench: Workbench) -> None:
    """Numbers grow within a kind, and texts are read page by page. Kinds do not mix, nor do lists and documents."""
    numbers = [
        n for body in range(5) for n in await bench.store.documents.append_documents("audit", [str(body)], now=at(body))
    ]
    await bench.store.documents.append_documents("audits", ['"another list"'], now=bench.now)
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0
    entries = await bench.store.documents.list_appended("audit")
    assert [(entry.kind, entry.number, entry.body, entry.written_at) for entry in entries] == [
        ("audit", number, str(body), at(body)) for body, number in enumerate(numbers)
    ]
    assert await bench.store.documents.list_appended("audit", after=numbers[1], limit=2) == entries[2:4]
    assert await bench.store.documents.list_appended("audit", after=numbers[4]) == []
    assert await bench.store.documents.list_appended("none") == []
    assert await bench.store.documents.list_documents("audit") == []


@check
async def check_a_keyed_text_is_appended_once(bench: Workbench) -> None:
    """A repetition answers with the same number. Without a key, or in another kind, a second text is appended."""
    [first] = await bench.store.documents.append_documents("audit", ["1"], keys=["k"], now=bench.now)
    assert await bench.store.documents.append_documents("audit", ["1"], keys=["k"], now=bench.now) == [first]
    [other] = await bench.store.documents.append_documents("audits", ["1"], keys=["k"], now=bench.now)
    unnamed = await bench.store.documents.append_documents("audit", ["1", "1"], now=bench.now)
    assert [entry.number for entry in await bench.store.documents.list_appended("audit")] == [first, *unnamed]
    assert [entry.number for entry in await bench.store.documents.list_appended("audits")] == [other]


@check
async def check_several_texts_are_appended_in_one_write(bench: Workbench) -> None:
    """They stay in order, and each key is stored once. If one text is refused, none is stored."""
    [first] = await bench.store.documents.append_documents("audit", ["1"], keys=["k"], now=bench.now)
    numbers = await bench.store.documents.append_documents(
        "audit", ["2", "1", "3", "4", "3", "5"], keys=["a", "k", "b", "", "b", ""], now=bench.now
    )
    entries = await bench.store.documents.list_appended("audit")
    assert [entry.body for entry in entries] == ["1", "2", "3", "4", "5"]
    _, second, third, fourth, fifth = (entry.number for entry in entries)
    assert numbers == [second, first, third, fourth, third, fifth]
    assert await bench.store.documents.append_documents("audit", [], now=bench.now) == []
    for bodies, keys in ((["6", "{"], []), (["6", "7"], ["one"])):
        with raises(DefinitionError):
            await bench.store.documents.append_documents("audit", bodies, keys=keys, now=bench.now)
    assert await bench.store.documents.list_appended("audit") == entries


@check
async def check_notes_are_written_with_their_runs(bench: Workbench) -> None:
    """Each text has the id of its run, also of a run that existed before. If a run is refused, nothing is stored."""
    job = await bench.define()
    before = NewRun(job.id, submit_trigger("before"), at(0), '{"a":1}', "known")
    [known] = await bench.store.submit([before], now=bench.now)
    runs = [NewRun(job.id, submit_trigger(key), at(0), "{}", key) for key in ("known", "new", "")]
    texts = [f'{{"n": {n}, "run": "mark"}}' for n in range(3)]
    with raises(KeyConflict):
        await bench.store.submit(runs, noting=Noting("audit", texts, ["a", "b", "c"], '"mark"'), now=bench.now)
    runs[0] = replace(runs[0], args='{"a":1}')
    for noting in (Noting("audit", texts[:2], [], '"mark"'), Noting("audit", ["{", "1", "2"], [], '"mark"')):
        with raises(DefinitionError):
            await bench.store.submit(runs, noting=noting, now=bench.now)
    assert await bench.store.documents.list_appended("audit") == []
    made = await bench.store.submit(runs, noting=Noting("audit", texts, ["a", "b", ""], '"mark"'), now=bench.now)
    assert made[0] == known
    assert len(set(made)) == 3
    entries = await bench.store.documents.list_appended("audit")
    assert [json.loads(entry.body) for entry in entries] == [{"n": n, "run": run_id} for n, run_id in enumerate(made)]
    again = await bench.store.submit(runs, noting=Noting("audit", texts, ["a", "b", ""], '"mark"'), now=bench.now)
    assert again == made
    assert len(await bench.store.documents.list_appended("audit")) == 4, "expected another entry without a key"


@check
async def check_a_joint_note_of_many_runs_is_written_once(bench: Workbench) -> None:
    """Without a mark the caller passes any number of texts. They are stored unchanged, each key once. If a run is
    refused, none is stored."""
    job = await bench.define()
    runs = [NewRun(job.id, submit_trigger(str(n)), at(0), "{}", f"k{n}") for n in range(250)]
    noting = Noting("audit", ['{"runs": 250}', '{"so": "many"}'], ["a", ""], "")
    with raises(UnknownJob):
        await bench.store.submit([*runs, NewRun(10**6, submit_trigger("x"), at(0))], noting=noting, now=bench.now)
    assert await bench.store.documents.list_appended("audit") == []
    await bench.store.submit(runs, noting=noting, now=bench.now)
    await bench.store.submit(runs, noting=noting._replace(bodies=['{"runs": 250}'], keys=["a"]), now=bench.now)
    entries = await bench.store.documents.list_appended("audit")
    assert [json.loads(entry.body) for entry in entries] == [{"runs": 250}, {"so": "many"}]


@check
async def check_notes_of_many_runs_stay_in_order(bench: Workbench) -> None:
    """There are more runs than a store takes in one write. Each text still has the id of its run."""
    job = await bench.define()
    runs = [NewRun(job.id, submit_trigger(str(n)), at(0)) for n in range(250)]
    texts = [f'{{"n": {n}, "run": "mark"}}' for n in range(250)]
    made = await bench.store.submit(runs, noting=Noting("audit", texts, [], '"mark"'), now=bench.now)
    entries = await bench.store.documents.list_appended("audit", limit=1000)
    assert [json.loads(entry.body) for entry in entries] == [{"n": n, "run": run_id} for n, run_id in enumerate(made)]


@check
async def check_a_reader_of_pages_misses_no_append(bench: Workbench) -> None:
    """While others append, each text that a reader has not seen has a higher number than all it has seen."""
    writers = [bench.store.documents.append_documents("audit", [str(number)], now=bench.now) for number in range(20)]
    writing = asyncio.gather(*writers)
    read: list[str] = []
    last = 0
    while True:
        is_over = writing.done()
        page = await bench.store.documents.list_appended("audit", after=last, limit=3)
        read += [entry.body for entry in page]
        last = page[-1].number if page else last
        if is_over and not page:
            break
        await asyncio.sleep(0)
    assert sorted(read, key=int) == [str(number) for number in range(20)]
    assert len({number for [number] in await writing}) == 20
