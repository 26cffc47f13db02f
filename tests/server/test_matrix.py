"""Every route, asked by everybody: the table of `server/table.py` against that of the roles."""

from __future__ import annotations

from datetime import timedelta

import httpx2
import pytest

import onthedot as otd
from onthedot.access import keys, users
from onthedot.access.grants import Grant
from onthedot.access.permissions import ROLES, Role
from onthedot.server.table import EVERYBODY, TABLE
from tests.server.kit import Served, served
from tests.server.samples import SAMPLES

JOB = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), owner="ann", schedules=(otd.every("1h"),))

ASKING: dict[str, dict[str, object] | None] = {
    "anonymous": None,
    "another namespace": {"role": Role.ADMIN, "namespaces": ("elsewhere",)},
    "another owner": {"role": Role.ADMIN, "owner": "bob", "only_own": True},
    **{str(role): {"role": role, "owner": "ann"} for role in Role},
}


async def prepare(server: Served) -> dict[str, object]:
    """What the samples speak of; what is only known here is named."""
    store = server.there.store
    await server.there.verbs().put(JOB)
    await users.create(store, "ann", "a good long password", Grant(role=Role.VIEWER))
    issued = await keys.issue(store, "old", Grant(role=Role.VIEWER))
    run = await server.there.verbs().submit("nap", delay="1h")
    return {"key": issued.key.id, "run": run.id}


async def ask(server: Served, line: str, who: str, known: dict[str, object]) -> httpx2.Response:
    method, _, path = line.partition(" ")
    sample = SAMPLES[line]
    sample = sample._replace(path=sample.path.format(**known))
    given = ASKING[who]
    headers = {} if given is None else server.keys.add(**given)  # type: ignore[arg-type]
    if sample.body is None:
        return await server.client.request(method, sample.path or path, headers=headers)
    if isinstance(sample.body, str):
        headers = {**headers, "Content-Type": sample.content_type}
        return await server.client.request(method, sample.path or path, headers=headers, content=sample.body)
    return await server.client.request(method, sample.path or path, headers=headers, json=sample.body)


def expected(line: str, who: str) -> str:
    """What must come of it: refused as a stranger, for want of a permission, as not there; or answered."""
    permission = TABLE[line]
    if permission is EVERYBODY:
        return "answered"
    if who == "anonymous":
        return "401"
    role = Role(who) if who in set(Role) else Role.ADMIN
    if permission not in ROLES[role]:
        return "403"
    if who.startswith("another") and SAMPLES[line].gives:
        return "403"
    return "404" if who.startswith("another") and SAMPLES[line].about else "answered"


def test_every_route_is_gone_over():
    assert set(SAMPLES) == set(TABLE)


@pytest.mark.parametrize("who", list(ASKING))
@pytest.mark.parametrize("line", list(TABLE))
async def test_a_route_is_there_for_those_who_may_and_nobody_else(line: str, who: str):
    async with served() as server:
        known = await prepare(server)
        before = await server.there.verbs().get_job("nap")
        answer = await ask(server, line, who, known)
        wanted = expected(line, who)
        if wanted == "answered":
            assert answer.status_code < 300, answer.text
        else:
            assert str(answer.status_code) == wanted, answer.text
            assert await server.there.verbs().get_job("nap") == before
