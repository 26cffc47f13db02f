"""The routes of dead letters: list, group, replay and discard, for callers that can see the runs."""

from __future__ import annotations

from typing import Any

import pytest

import onthedot as otd
from onthedot.access import audit
from onthedot.access.permissions import LOCAL, Principal, Role
from onthedot.model.errors import StoreUnavailable
from onthedot.model.run import RunState
from onthedot.model.task import Call
from onthedot.server.routes.dead_letters import DiscardedOut, GroupOut, LettersOut, ReplayedOut
from tests.server.kit import Served
from tests.server.worker import Worker

LETTERS = "/api/v1/dead-letters"


async def died(server: Served, worker: Worker, *errors: str, job: str = "mail") -> list[int]:
    found = []
    for error in errors:
        found.append((await server.there.verbs().submit(job, {"of": error} if job == "mail" else None)).id)
        await worker.end(await worker.take_one(), RunState.DEAD, error=error)
    return found


async def listed(server: Served, who: dict[str, str], query: str = "") -> list[int]:
    answer = await server.client.get(f"{LETTERS}?{query}", headers=who)
    assert answer.status_code == 200, answer.text
    return [letter["run_id"] for letter in answer.json()["items"]]


# ── lists and groups ─────────────────────────────────────────────────────────────────────────────────────────


async def test_letters_are_listed_page_by_page(server: Served, viewer: dict[str, str], worker: Worker):
    ids = await died(server, worker, *[f"boom {number}" for number in range(5)])
    seen: list[int] = []
    query, following = "limit=2", None
    for _ in range(3):
        page = LettersOut.model_validate((await server.client.get(f"{LETTERS}?{query}", headers=viewer)).json())
        seen += [letter.run_id for letter in page.items]
        following = page.next
        query = f"limit=2&after={following}"
    assert (seen, following) == (ids[::-1], None)


async def test_letters_are_grouped_by_error(server: Served, viewer: dict[str, str], worker: Worker):
    one, two, other = await died(server, worker, "ValueError: no 1", "ValueError: no 2", "KeyError: x")
    groups = [
        GroupOut.model_validate(group)
        for group in (await server.client.get(f"{LETTERS}/groups", headers=viewer)).json()
    ]
    assert [(group.error_type, group.count, group.example.run_id) for group in groups] == [
        ("KeyError", 1, other),
        ("ValueError", 2, two),
    ]
    assert await listed(server, viewer, f"fingerprint={groups[1].fingerprint}") == [two, one]
    assert await listed(server, viewer, "job=greet") == []
    assert await listed(server, viewer, "until=2020-01-01T00:00:00Z") == []


@pytest.mark.parametrize("query", ["limit=0", "after=x", "since=soon", "job=%00"])
async def test_invalid_queries_are_refused(server: Served, viewer: dict[str, str], query: str):
    assert (await server.client.get(f"{LETTERS}?{query}", headers=viewer)).status_code == 422


async def test_letters_of_others_are_answered_as_missing(server: Served, worker: Worker, operator: dict[str, str]):
    [run_id] = await died(server, worker, "boom")
    own = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    elsewhere = server.keys.add(Role.ADMIN, namespaces=("other",))
    assert await listed(server, own) == []
    assert (await server.client.get(f"{LETTERS}/groups", headers=own)).json() == []
    assert (await server.client.get(LETTERS, headers=elsewhere)).status_code == 404
    for who in (own, elsewhere):
        for verb, said in (("replay", {"run_ids": [run_id]}), ("discard", {"run_ids": [run_id]})):
            assert (await server.client.post(f"{LETTERS}/{verb}", json=said, headers=who)).status_code == 404
    everything = await server.client.post(f"{LETTERS}/replay", json={}, headers=own)
    assert everything.json()["letters"] == 0
    assert await listed(server, operator) == [run_id]


async def test_a_viewer_cannot_replay_or_discard(server: Served, viewer: dict[str, str]):
    for verb in ("replay", "discard"):
        answer = await server.client.post(f"{LETTERS}/{verb}", json={"run_ids": [1]}, headers=viewer)
        assert answer.status_code == 403


# ── replays ──────────────────────────────────────────────────────────────────────────────────────────────────


async def replayed(server: Served, who: dict[str, str], **said: Any) -> ReplayedOut:
    answer = await server.client.post(f"{LETTERS}/replay", json=said, headers=who)
    assert answer.status_code == 200, answer.text
    return ReplayedOut.model_validate(answer.json())


async def test_letters_chosen_by_run_id_are_replayed_once(server: Served, operator: dict[str, str], worker: Worker):
    ids = await died(server, worker, "a", "b", "c")
    dry = await replayed(server, operator, run_ids=ids[:2], dry_run=True)
    assert (dry.letters, dry.run_ids) == (2, [])
    assert len(await listed(server, operator)) == 3
    done = await replayed(server, operator, run_ids=ids[:2])
    assert done == await replayed(server, operator, run_ids=ids[:2])
    new = await server.there.store.queries.get_runs(done.run_ids)
    assert [(run.origin, run.args) for run in new] == [(ids[0], '{"of":"a"}'), (ids[1], '{"of":"b"}')]
    assert await listed(server, operator) == [ids[2]]


async def test_letters_chosen_by_filter_are_replayed_at_a_rate(
    server: Served, operator: dict[str, str], worker: Worker
):
    ids = await died(server, worker, "ValueError: 1", "ValueError: 2", "KeyError: 3")
    [_, group] = (await server.client.get(f"{LETTERS}/groups", headers=operator)).json()
    said = {"fingerprint": group["fingerprint"], "rate": {"most": 1, "per": "10s"}}
    dry = await replayed(server, operator, **said, dry_run=True)
    assert (dry.letters, dry.run_ids, dry.dry_run) == (2, [], True)
    done = await replayed(server, operator, **said)
    one, two = await server.there.store.queries.get_runs(done.run_ids)
    assert (one.origin, two.origin, two.due_at - one.due_at) == (ids[0], ids[1], 10_000_000)
    assert await listed(server, operator) == [ids[2]]


async def test_if_one_run_id_cannot_be_replayed_none_is(server: Served, operator: dict[str, str], worker: Worker):
    [dead] = await died(server, worker, "boom")
    waits = (await server.there.verbs().submit("mail", delay="1h")).id
    answer = await server.client.post(f"{LETTERS}/replay", json={"run_ids": [dead, waits]}, headers=operator)
    assert answer.status_code == 409
    missing = await server.client.post(f"{LETTERS}/replay", json={"run_ids": [dead, 999]}, headers=operator)
    assert (missing.status_code, "999" in missing.json()["detail"]) == (404, True)
    assert await listed(server, operator) == [dead]


BAD: list[dict[str, Any]] = [
    {"run_ids": []},
    {"run_ids": [0]},
    {"run_ids": [2**60]},
    {"run_ids": ["1"]},
    {"run_ids": list(range(1, 1002))},
    {"run_ids": [1], "job": "mail"},
    {"run_ids": [1], "rate": {"most": 1}},
    {"rate": {"most": 0}},
    {"rate": {"most": 1, "per": "soon"}},
    {"since": "yesterday"},
    {"limit": 10_001},
    {"other": 1},
]


@pytest.mark.parametrize("said", BAD)
async def test_invalid_replays_are_refused(server: Served, operator: dict[str, str], said: dict[str, Any]):
    answer = await server.client.post(f"{LETTERS}/replay", json=said, headers=operator)
    assert answer.status_code == 422, answer.text


async def test_a_replay_of_more_letters_than_the_limit_is_refused(
    server: Served, operator: dict[str, str], worker: Worker
):
    await died(server, worker, "a", "b")
    answer = await server.client.post(f"{LETTERS}/replay", json={"limit": 1}, headers=operator)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "limit")
    assert len(await listed(server, operator)) == 2


async def test_a_replay_by_filter_takes_only_letters_of_the_caller(server: Served, worker: Worker):
    await server.there.verbs().put(otd.Job(name="theirs", task=Call(handler="theirs"), owner="bob"))
    await died(server, worker, "boom")
    [own] = await died(server, worker, "boom", job="theirs")
    bob = server.keys.add(Role.OPERATOR, owner="bob", only_own=True)
    assert await listed(server, bob) == [own]
    assert (await replayed(server, bob)).letters == 1
    assert len(await server.there.verbs().dead_runs()) == 1


# ── discards ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_letters_are_discarded_with_a_reason(server: Served, operator: dict[str, str], worker: Worker):
    ids = await died(server, worker, "a", "b")
    said = {"run_ids": [ids[0], ids[0]], "why": "sent by hand"}
    answer = await server.client.post(f"{LETTERS}/discard", json=said, headers=operator)
    assert DiscardedOut.model_validate(answer.json()).discarded == 1
    again = await server.client.post(f"{LETTERS}/discard", json=said, headers=operator)
    assert again.json() == {"discarded": 0}
    run = await server.client.get(f"/api/v1/runs/{ids[0]}", headers=operator)
    assert (run.json()["state"], run.json()["settled"]) == ("dead", "discarded:sent by hand")
    assert await listed(server, operator) == [ids[1]]
    refused = await server.client.post(f"{LETTERS}/replay", json={"run_ids": ids}, headers=operator)
    assert refused.status_code == 409


@pytest.mark.parametrize("said", [{}, {"run_ids": []}, {"run_ids": [1], "why": "x" * 201}, {"run_ids": [1], "x": 1}])
async def test_invalid_discards_are_refused(server: Served, operator: dict[str, str], said: dict[str, Any]):
    assert (await server.client.post(f"{LETTERS}/discard", json=said, headers=operator)).status_code == 422


# ── audit ────────────────────────────────────────────────────────────────────────────────────────────────────


async def audited(server: Served, by: Principal = LOCAL) -> list[tuple[str, str, str, str, Any]]:
    found = await audit.read(server.there.store, by=by)
    return [(entry.verb, entry.object, entry.namespace, entry.owner, entry.after) for entry in found]


async def test_exactly_the_discarded_letters_are_audited(server: Served, operator: dict[str, str], worker: Worker):
    one, two = await died(server, worker, "a", "b")
    waits = (await server.there.verbs().submit("mail", delay="1h")).id
    said = {"run_ids": [one, waits], "why": "known"}
    assert (await server.client.post(f"{LETTERS}/discard", json=said, headers=operator)).json() == {"discarded": 1}
    entry = ("letters.discard", f"run/default/mail/{one}", "default", "ann", {"why": "known"})
    assert await audited(server) == [entry]
    await server.client.post(f"{LETTERS}/discard", json=said, headers=operator)
    assert await audited(server) == [entry]

    async def away(settled: object) -> list[bool]:
        raise StoreUnavailable("gone for a while")

    server.there.store.settle_dead = away  # type: ignore[method-assign]
    refused = await server.client.post(f"{LETTERS}/discard", json={"run_ids": [two]}, headers=operator)
    assert (refused.status_code, await audited(server)) == (503, [entry])


async def test_a_replay_by_run_ids_is_audited_with_namespace_and_owner_of_each_run(
    server: Served, operator: dict[str, str], worker: Worker
):
    far = otd.Job(name="far", namespace="team", task=Call(handler="far"), owner="bob")
    await server.there.verbs("team").put(far)
    [here] = await died(server, worker, "a")
    there = (await server.there.verbs("team").submit("far")).id
    await worker.end(await worker.take_one(), RunState.DEAD, error="b")
    done = await replayed(server, operator, run_ids=[here, there])
    entries = [
        ("letters.replay", f"run/default/mail/{here}", "default", "ann", {"run_id": done.run_ids[0]}),
        ("letters.replay", f"run/team/far/{there}", "team", "bob", {"run_id": done.run_ids[1]}),
    ]
    assert await audited(server) == entries
    await replayed(server, operator, run_ids=[here, there])  # a repeated replay changes nothing
    assert await audited(server) == entries


async def test_a_caller_can_read_the_audit_of_its_own_replay(server: Served, worker: Worker):
    await server.there.verbs().put(otd.Job(name="theirs", task=Call(handler="theirs"), owner="bob"))
    await died(server, worker, "boom", job="theirs")
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    done = await replayed(server, bob)
    [who] = server.keys.known.values()
    told = {"run_ids": done.run_ids, "runs": 1}
    assert await audited(server, who) == [("letters.replay", "namespace/default", "default", "bob", told)]
    await replayed(server, bob)  # no letter is left
    assert len(await audited(server)) == 1


async def test_if_the_job_of_one_run_id_is_removed_none_is_replayed(
    server: Served, operator: dict[str, str], worker: Worker
):
    [kept] = await died(server, worker, "a")
    [orphan] = await died(server, worker, "b", job="greet")
    await server.there.verbs().remove("greet")
    said = {"run_ids": [kept, orphan]}
    answer = await server.client.post(f"{LETTERS}/replay", json=said, headers=operator)
    assert (answer.status_code, answer.json()["error"]) == (404, "UnknownJob")
    assert await listed(server, operator) == [orphan, kept]
    assert await audited(server) == []


async def test_a_replay_does_not_run_a_new_job_of_another_owner_with_the_same_name(server: Served, worker: Worker):
    ann = server.keys.add(Role.OPERATOR, owner="ann", only_own=True)
    [dead] = await died(server, worker, "a")
    await server.there.verbs().remove("mail")
    await server.there.verbs().put(otd.Job(name="mail", task=Call(handler="mail"), owner="bob"))
    for said in ({"run_ids": [dead]}, {"run_ids": [dead], "dry_run": True}):
        answer = await server.client.post(f"{LETTERS}/replay", json=said, headers=ann)
        assert (answer.status_code, answer.json()["error"]) == (404, "UnknownJob")
    everything = await replayed(server, ann)
    assert (everything.letters, everything.without_job, everything.run_ids) == (1, 1, [])
    assert await server.there.verbs().list_runs("mail") == [await server.there.verbs().get_run(dead)]
