"""Files that runs have left, over HTTP."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import pytest

from onthedot.clock import SECOND
from onthedot.model.run import RunState
from onthedot.output.run_output import PIECE
from onthedot.server.routes.artifacts import ArtifactOut
from tests.server.kit import Served
from tests.server.worker import Worker

LARGE = bytes(range(256)) * (PIECE // 256 * 2 + 3)
FILES = [("report.csv", b"a,b\n1,2\n"), ("dist/app.tar", LARGE), ("../../etc/passwd", b"mine"), ("empty", b"")]


async def left(server: Served, worker: Worker) -> int:
    run_id = (await server.there.verbs().submit("mail")).id
    lease = await worker.take_one()
    await worker.keep(lease, [], FILES)
    await worker.end(lease)
    return run_id


def artifacts(run_id: int, rest: str = "") -> str:
    return f"/api/v1/runs/{run_id}/artifacts{rest}"


async def test_what_was_left_is_listed(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await left(server, worker)
    told = [
        ArtifactOut.model_validate(one) for one in (await server.client.get(artifacts(run_id), headers=viewer)).json()
    ]
    assert [(one.attempt, one.name, one.size) for one in told] == [(1, name, len(data)) for name, data in FILES]
    assert told[1].sha256 == hashlib.sha256(LARGE).hexdigest()


@pytest.mark.parametrize(("name", "data"), [FILES[0], FILES[3], ("dist%2Fapp.tar", LARGE)])
async def test_a_file_comes_as_it_was_left(
    server: Served, viewer: dict[str, str], worker: Worker, name: str, data: bytes
):
    run_id = await left(server, worker)
    answer = await server.client.get(artifacts(run_id, f"/1/{name}"), headers=viewer)
    assert answer.status_code == 200
    assert answer.content == data
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert answer.headers["x-content-type-options"] == "nosniff"


ODD = ["a\nb.txt", "a\rb.txt", "a%0Ab.txt", "bad-\udcff.bin", "tab\t\x1b[31m", "d/" + "long/" * 600 + "x", "ü%/?#"]


async def test_whatever_is_listed_can_be_fetched_by_that_name(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = (await server.there.verbs().submit("mail")).id
    lease = await worker.take_one()
    await worker.keep(lease, [], [(name, name.encode(errors="surrogateescape")) for name in ODD])
    await worker.end(lease)
    listed = (await server.client.get(artifacts(run_id), headers=viewer)).json()
    assert len({one["name"] for one in listed}) == len(ODD)
    for name, one in zip(ODD, listed, strict=True):
        assert one["name"].encode().decode().isprintable()
        answer = await server.client.get(artifacts(run_id, f"/1/{quote(one['name'], safe='')}"), headers=viewer)
        assert (answer.status_code, answer.content) == (200, name.encode(errors="surrogateescape"))


@pytest.mark.parametrize(
    "path", ["/1/none", "/2/report.csv", "/1/index.json", "/1/log.gz", "/1/artifact-0", "/1/..%2Findex.json"]
)
async def test_only_names_that_are_listed_are_there(server: Served, viewer: dict[str, str], worker: Worker, path: str):
    run_id = await left(server, worker)
    assert (await server.client.get(artifacts(run_id, path), headers=viewer)).status_code == 404


async def test_a_name_is_part_of_no_path(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await left(server, worker)
    answer = await server.client.get(artifacts(run_id, "/1/..%2F..%2Fetc%2Fpasswd"), headers=viewer)
    assert answer.content == b"mine"  # what the job called so, and nothing else
    assert 'filename="passwd"' in answer.headers["content-disposition"]


@pytest.mark.parametrize("path", ["/0/report.csv", "/x/report.csv", "/1/%00"])
async def test_places_that_cannot_be_understood(server: Served, viewer: dict[str, str], worker: Worker, path: str):
    run_id = await left(server, worker)
    assert (await server.client.get(artifacts(run_id, path), headers=viewer)).status_code == 422


async def test_files_of_others_are_not_there(server: Served, stranger: dict[str, str], worker: Worker):
    run_id = await left(server, worker)
    assert (await server.client.get(artifacts(run_id), headers=stranger)).status_code == 404
    assert (await server.client.get(artifacts(run_id, "/1/report.csv"), headers=stranger)).status_code == 404


async def test_a_run_that_has_left_nothing(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = (await server.there.verbs().submit("mail")).id
    await worker.end(await worker.take_one(), RunState.SCHEDULED, again_in=60 * SECOND)
    assert (await server.client.get(artifacts(run_id), headers=viewer)).json() == []
