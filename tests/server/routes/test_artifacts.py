"""The routes of artifacts: files of runs are listed and downloaded, by listed names only."""

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


async def run_with_artifacts(server: Served, worker: Worker) -> int:
    run_id = (await server.there.verbs().submit("mail")).id
    lease = await worker.take_one()
    await worker.keep(lease, [], FILES)
    await worker.end(lease)
    return run_id


def artifacts(run_id: int, rest: str = "") -> str:
    return f"/api/v1/runs/{run_id}/artifacts{rest}"


async def test_artifacts_are_listed(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await run_with_artifacts(server, worker)
    told = [
        ArtifactOut.model_validate(one) for one in (await server.client.get(artifacts(run_id), headers=viewer)).json()
    ]
    assert [(one.attempt, one.name, one.size) for one in told] == [(1, name, len(data)) for name, data in FILES]
    assert told[1].sha256 == hashlib.sha256(LARGE).hexdigest()


@pytest.mark.parametrize(("name", "data"), [FILES[0], FILES[3], ("dist%2Fapp.tar", LARGE)])
async def test_an_artifact_is_downloaded_unchanged(
    server: Served, viewer: dict[str, str], worker: Worker, name: str, data: bytes
):
    run_id = await run_with_artifacts(server, worker)
    answer = await server.client.get(artifacts(run_id, f"/1/{name}"), headers=viewer)
    assert answer.status_code == 200
    assert answer.content == data
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert answer.headers["x-content-type-options"] == "nosniff"


ODD = ["a\nb.txt", "a\rb.txt", "a%0Ab.txt", "bad-\udcff.bin", "tab\t\x1b[31m", "d/" + "long/" * 600 + "x", "ü%/?#"]


async def test_every_listed_name_can_be_downloaded(server: Served, viewer: dict[str, str], worker: Worker):
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
async def test_a_name_that_is_not_listed_is_missing(server: Served, viewer: dict[str, str], worker: Worker, path: str):
    run_id = await run_with_artifacts(server, worker)
    assert (await server.client.get(artifacts(run_id, path), headers=viewer)).status_code == 404


async def test_a_name_is_not_used_as_a_path(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = await run_with_artifacts(server, worker)
    answer = await server.client.get(artifacts(run_id, "/1/..%2F..%2Fetc%2Fpasswd"), headers=viewer)
    assert answer.content == b"mine"  # the job's artifact of this name
    assert 'filename="passwd"' in answer.headers["content-disposition"]


@pytest.mark.parametrize("path", ["/0/report.csv", "/x/report.csv", "/1/%00"])
async def test_invalid_attempts_and_names_are_refused(
    server: Served, viewer: dict[str, str], worker: Worker, path: str
):
    run_id = await run_with_artifacts(server, worker)
    assert (await server.client.get(artifacts(run_id, path), headers=viewer)).status_code == 422


async def test_artifacts_of_others_are_answered_as_missing(server: Served, stranger: dict[str, str], worker: Worker):
    run_id = await run_with_artifacts(server, worker)
    assert (await server.client.get(artifacts(run_id), headers=stranger)).status_code == 404
    assert (await server.client.get(artifacts(run_id, "/1/report.csv"), headers=stranger)).status_code == 404


async def test_a_run_without_artifacts_has_an_empty_list(server: Served, viewer: dict[str, str], worker: Worker):
    run_id = (await server.there.verbs().submit("mail")).id
    await worker.end(await worker.take_one(), RunState.SCHEDULED, again_in=60 * SECOND)
    assert (await server.client.get(artifacts(run_id), headers=viewer)).json() == []
