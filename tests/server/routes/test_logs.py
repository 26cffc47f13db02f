"""The routes of logs: ranges of the output of a run, and a live stream of it for many followers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from onthedot.access.permissions import Principal, Role
from onthedot.model.run import RunState
from onthedot.observe.formats import iso
from onthedot.output.records import Mark, Record, encode_mark
from onthedot.server import event_stream
from onthedot.server.routes import logs
from onthedot.server.routes.logs import LogsOut
from tests.server.event_reader import reading
from tests.server.kit import Served
from tests.server.worker import Worker

RECORDS = [
    Record(1_000_000, "out", "build", "one\n"),
    Record(2_000_000, "err", "build", "two \x1b[31mred\n"),
    Record(3_000_000, "out", "test", "three\n"),
]
TEXT = "".join(record.text for record in RECORDS)


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "POLL_EVERY", 0.01)


async def submitted(server: Served) -> int:
    return (await server.there.verbs().submit("mail")).id


def path_of(run_id: int, rest: str = "") -> str:
    return f"/api/v1/runs/{run_id}/logs{rest}"


# ── ranges ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_records_have_instants_streams_and_steps(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    lease = await worker.take_one()
    await worker.keep(lease, RECORDS)
    await worker.end(lease)
    told = LogsOut.model_validate((await server.client.get(path_of(run_id), headers=viewer)).json())
    assert [(one.at, one.stream, one.step, one.text) for one in told.items][1] == (
        "1970-01-01T00:00:02.000000Z", "err", "build", "two \x1b[31mred\n",
    )  # fmt: skip
    page = LogsOut.model_validate(
        (await server.client.get(path_of(run_id, "?offset=1&limit=1"), headers=viewer)).json()
    )
    assert ([one.text for one in page.items], page.next) == ([RECORDS[1].text], 2)


async def test_text_is_sent_as_a_download(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    lease = await worker.take_one()
    await worker.keep(lease, [Record(1, "out", "", "<script>alert(1)</script>")])
    await worker.end(lease)
    answer = await server.client.get(path_of(run_id, "?format=text"), headers=viewer)
    assert answer.text == "<script>alert(1)</script>"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="run-{run_id}.log"')
    assert answer.headers["x-content-type-options"] == "nosniff"
    part = await server.client.get(path_of(run_id, "?format=text&offset=8&limit=5"), headers=viewer)
    assert (part.text, part.headers["x-next-offset"]) == ("alert", "13")
    behind = await server.client.get(path_of(run_id, "?format=text&offset=999"), headers=viewer)
    assert (behind.text, "x-next-offset" in behind.headers) == ("", False)


async def test_logs_have_the_stored_or_live_output_of_each_attempt(
    server: Served, viewer: dict[str, str], worker: Worker
):
    run_id = await submitted(server)
    lease = await worker.take_one()
    await worker.keep(lease, RECORDS)
    await worker.end(lease, RunState.SCHEDULED)
    await worker.say(await worker.take_one(), "the second try\n")
    told = (await server.client.get(path_of(run_id), headers=viewer)).json()["items"]
    assert [one["attempt"] for one in told] == [1, 1, 1, 2]
    assert told[-1] == {"attempt": 2, "at": None, "stream": None, "step": None, "text": "the second try\n"}
    only = (await server.client.get(path_of(run_id, "?attempt=2"), headers=viewer)).json()["items"]
    assert [one["text"] for one in only] == ["the second try\n"]
    assert (await server.client.get(path_of(run_id, "?attempt=3"), headers=viewer)).json()["items"] == []


@pytest.mark.parametrize("query", ["format=html", "offset=-1", "limit=0", "limit=2000000", "attempt=0", "attempt=x"])
async def test_invalid_ranges_are_refused(server: Served, viewer: dict[str, str], query: str):
    run_id = await submitted(server)
    assert (await server.client.get(path_of(run_id, f"?{query}"), headers=viewer)).status_code == 422


async def test_logs_of_others_are_answered_as_missing(server: Served, stranger: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    await worker.say(await worker.take_one(), "hush\n")
    for path in ("", "?format=text", "/follow"):
        answer = await server.client.get(path_of(run_id, path), headers=stranger)
        assert answer.status_code == 404
        assert "hush" not in answer.text


async def test_reading_logs_needs_a_permission(server: Served):
    run_id = await submitted(server)
    worker_key = server.keys.add(Role.WORKER)
    for path in ("", "/follow"):
        answer = await server.client.get(path_of(run_id, path), headers=worker_key)
        assert (answer.status_code, "logs:read" in answer.text) == (403, True)


# ── following ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_follower_gets_each_line_once_and_then_the_end(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        assert (reader.status, reader.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        lease = await worker.take_one()
        await worker.say(lease, "one\n")
        assert (await reader.next()).data["text"] == "one\n"
        await worker.say(lease, "one\ntwo \x1b[31mred\n")
        assert (await reader.next()).data["text"] == "two \x1b[31mred\n"
        await worker.keep(lease, RECORDS)
        await worker.end(lease)
        last, end = await reader.rest()
    assert (last.data["text"], last.data["step"], last.id) == ("three\n", "test", f"1.r.{len(TEXT)}")
    assert (end.event, end.data["state"], end.id) == ("end", "succeeded", "end")


async def test_live_lines_have_instants_streams_and_steps(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    note = "".join(encode_mark(Mark(*record[:3])) + record.text for record in RECORDS)
    told = [
        {"attempt": 1, "at": iso(one.at), "stream": one.stream, "step": one.step, "text": one.text} for one in RECORDS
    ]
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        lease = await worker.take_one()
        await worker.say(lease, note)
        for one in told:
            assert (await reader.next()).data == one
        assert (await server.client.get(path_of(run_id), headers=viewer)).json()["items"] == told
        assert (await server.client.get(path_of(run_id, "?format=text"), headers=viewer)).text == TEXT
        await worker.keep(lease, RECORDS)
        await worker.end(lease)
        [end] = await reader.rest()  # no line is sent twice
    assert end.event == "end"


async def test_a_follower_resumes_where_it_stopped(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    lease = await worker.take_one()
    await worker.say(lease, "one\ntwo ")

    async def follow(last: str | None) -> Any:
        headers = viewer if last is None else {**viewer, "Last-Event-ID": last}
        return reading(server.app, path_of(run_id, "/follow"), headers)

    async with await follow(None) as reader:
        first = await reader.next()
    assert (first.data["text"], first.id) == ("one\ntwo ", "1.n.8")
    await worker.keep(lease, RECORDS)  # the same text, in other pieces and complete
    await worker.end(lease)
    async with await follow(first.id) as reader:
        *told, end = await reader.rest()
    assert "".join(one.data["text"] for one in told) == TEXT[8:]
    for seen in (told[0].id, told[-1].id):
        async with await follow(seen) as reader:
            rest = [one.data["text"] for one in await reader.rest() if one.event == "log"]
        assert "".join(rest) == TEXT[int(str(seen).rpartition(".")[2]) :]
    async with await follow(end.id) as reader:
        assert reader.status == 204


async def test_a_follower_gets_all_attempts_of_a_run(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        for number in (1, 2, 3):
            lease = await worker.take_one()
            await worker.keep(lease, [Record(1, "out", "", f"try {number}\n")])
            await worker.end(lease, RunState.DEAD if number == 3 else RunState.SCHEDULED, error="boom")
        told = await reader.rest()
    assert [(one.data["attempt"], one.data["text"]) for one in told[:-1]] == [
        (number, f"try {number}\n") for number in (1, 2, 3)
    ]
    assert told[-1].data["error"] == "boom"


async def test_a_follower_is_told_of_lost_characters(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await submitted(server)
    lease = await worker.take_one()
    await worker.say(lease, "head\n")
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        assert (await reader.next()).data["text"] == "head\n"
        await worker.say(lease, "head\n[… 100 characters left out …]\ntail\n")
        assert (await reader.next()).data == {"attempt": 1, "characters": 100}
        tail = await reader.next()
        assert (tail.data["text"], tail.id) == ("tail\n", "1.n.110")
        await worker.say(lease, "head\n[… 105 characters left out …]\nmore\n")
        assert (await reader.next()).data["text"] == "more\n"


async def test_the_stream_of_a_silent_run_ends(server: Served, viewer: dict[str, str]):
    run_id = await submitted(server)
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        await server.there.verbs().cancel(run_id)
        [end] = await reader.rest()
    assert end.data["state"] == "cancelled"


@pytest.mark.parametrize("last", ["x", "1.n", "1.n.-1", "0x1.n.1", "1.n." + "9" * 30, "1.q.1"])
async def test_an_invalid_event_id_is_refused(server: Served, viewer: dict[str, str], last: str):
    run_id = await submitted(server)
    headers = {**viewer, "Last-Event-ID": last}
    assert (await server.client.get(path_of(run_id, "/follow"), headers=headers)).status_code == 422


# ── many followers ───────────────────────────────────────────────────────────────────────────────────────────


async def test_many_followers_share_one_query(
    server: Served, viewer: dict[str, str], worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    run_id = await submitted(server)
    lease = await worker.take_one()
    await worker.say(lease, "one\n")
    query_count, list_logs, query_seen = 0, server.there.store.queries.list_logs, asyncio.Event()

    async def counted(run: int) -> Any:
        nonlocal query_count
        query_count += 1
        query_seen.set()
        return await list_logs(run)

    monkeypatch.setattr(logs, "POLL_EVERY", 0.2)
    monkeypatch.setattr(server.there.store.queries, "list_logs", counted)
    async with asyncio.TaskGroup() as group:

        async def one() -> None:
            async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
                assert (await reader.next()).data["text"] == "one\n"
                assert (await reader.next()).data["text"] == "two\n"

        for _ in range(50):
            group.create_task(one())
        await query_seen.wait()
        await worker.say(lease, "one\ntwo\n")
    assert query_count < 15
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("onthedot follow")]


async def test_a_follower_that_does_not_read_is_disconnected(
    server: Served, viewer: dict[str, str], worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event_stream, "SEND_TIMEOUT", 0.5)
    run_id = await submitted(server)
    lease = await worker.take_one()
    text = "x" * 50_000 + "\n"
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as frozen:
        frozen.may_read.clear()
        async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
            await worker.keep(lease, [Record(number, "out", "", text) for number in range(100)])
            await worker.end(lease)
            told = await reader.rest()
        assert sum(len(one.data["text"]) for one in told[:-1]) == 100 * len(text)
        await asyncio.wait_for(frozen.ended.wait(), 10)  # the server closes its stream
        assert frozen.events.empty()
    assert server.app.state.followers.count == 0


async def test_the_number_of_followers_is_limited(server: Served, viewer: dict[str, str]):
    server.app.state.followers.most = 1
    run_id = await submitted(server)
    async with reading(server.app, path_of(run_id, "/follow"), viewer):
        answer = await server.client.get(path_of(run_id, "/follow"), headers=viewer)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        assert reader.status == 200


async def test_the_followers_of_one_principal_are_limited(server: Served, viewer: dict[str, str]):
    server.app.state.followers.most_each = 2
    run_id, other = await submitted(server), server.keys.add(Role.VIEWER)
    async with (
        reading(server.app, path_of(run_id, "/follow"), viewer),
        reading(server.app, "/api/v1/events", viewer),
    ):
        answer = await server.client.get("/api/v1/events", headers=viewer)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert "expected at most 2 followers at once of" in answer.json()["detail"]
        async with reading(server.app, "/api/v1/events", other) as reader:
            assert reader.status == 200
    async with reading(server.app, "/api/v1/events", viewer) as reader:
        assert reader.status == 200


async def test_sessions_of_one_user_share_a_limit_of_followers(server: Served):
    server.app.state.followers.most_each = 1
    at_home, at_work = ({"Authorization": f"Bearer {where}"} for where in ("home", "work"))
    for text in ("home", "work"):
        server.keys.known[text] = Principal(kind="session", id=text, name="ann", role=Role.VIEWER)
    async with reading(server.app, "/api/v1/events", at_home):
        assert (await server.client.get("/api/v1/events", headers=at_work)).status_code == 429


async def test_concurrent_followers_are_counted(server: Served, viewer: dict[str, str]):
    server.app.state.followers.most_each = 3
    async with AsyncExitStack() as stack:
        came = await asyncio.gather(
            *(stack.enter_async_context(reading(server.app, "/api/v1/events", viewer)) for _ in range(10))
        )
        assert sorted(reader.status for reader in came) == [200] * 3 + [429] * 7


async def test_a_stream_ends_when_the_key_is_revoked(
    server: Served, viewer: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event_stream, "CHECK_EVERY", 0.01)
    run_id = await submitted(server)
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        server.keys.known.clear()
        assert await reader.rest() == []


async def test_a_server_that_stops_ends_every_stream(server: Served, viewer: dict[str, str]):
    run_id = await submitted(server)
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        await asyncio.sleep(0)
        server.app.state.followers.close()
        assert await reader.rest() == []


async def test_a_quiet_stream_sends_pings(server: Served, viewer: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logs, "PING_EVERY", 0.01)
    monkeypatch.setattr(logs, "POLL_EVERY", 0.1)
    run_id = await submitted(server)
    async with reading(server.app, path_of(run_id, "/follow"), viewer) as reader:
        await reader.ping()
        await reader.ping()


@pytest.mark.parametrize(
    ("accept", "query", "kind"),
    [
        ("text/plain", "", "text/plain; charset=utf-8"),
        ("text/plain;q=0.9, application/json;q=0.2", "", "text/plain; charset=utf-8"),
        ("text/plain;q=0.2, application/json;q=0.9", "", "application/json"),
        ("*/*", "", "application/json"),
        ("text/html, */*;q=0.8", "", "application/json"),
        ("text/plain", "?format=json", "application/json"),
        ("application/json", "?format=text", "text/plain; charset=utf-8"),
    ],
)
async def test_the_client_chooses_text_or_json(
    server: Served, viewer: dict[str, str], worker: Worker, accept: str, query: str, kind: str
):
    run_id = await submitted(server)
    lease = await worker.take_one()
    await worker.keep(lease, RECORDS)
    await worker.end(lease)
    answer = await server.client.get(path_of(run_id, query), headers={**viewer, "Accept": accept})
    assert (answer.headers["content-type"], answer.headers["vary"]) == (kind, "Accept")
    assert (answer.text == TEXT) == kind.startswith("text/plain")


async def test_an_error_is_text_if_the_client_accepts_only_that(server: Served, viewer: dict[str, str]):
    answer = await server.client.get(path_of(99), headers={**viewer, "Accept": "text/plain", "X-Request-Id": "r-7"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert answer.text.startswith("There is no such thing: there is no run 99")
    assert answer.text.endswith("\n(status 404, request r-7)\n")
    usual = await server.client.get(path_of(99), headers={**viewer, "Accept": "application/json, text/plain"})
    assert (usual.status_code, usual.headers["content-type"]) == (404, "application/problem+json")
