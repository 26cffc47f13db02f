"""Schemathesis tests the whole API against its document: every check, over a real socket, with a real key.

`make test` uses SQLite, the documented examples and a few drawn ones for each operation, the same ones each time.
`make soak` uses both stores, all phases of schemathesis, and other values each time.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onthedot.access import keys
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.model.host_port import Listen
from onthedot.operations.open_verbs import opened
from onthedot.server.app import describe_api
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from tests.lanes import SOAK
from tests.server.sample_data import fill
from tests.server.schemathesis_process import Orders, operations, write

EXAMPLES = 5
SETTINGS = Settings(api_rate=1_000_000, api_burst=1_000_000)  # no rate limit for the one key
MOST_SHOWN = 20
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'api.db'}"


@pytest.fixture
def key(url: str, tmp_path: Path) -> keys.Issued:
    """An administrator's key, on a store with one of each object."""

    async def make() -> keys.Issued:
        async with opened(url) as there:
            await fill(there, tmp_path)
            return await keys.issue(there.store, "schemathesis", Grant(role=Role.ADMIN))

    return asyncio.run(make())


@pytest.fixture
def serving(url: str, key: keys.Issued) -> Iterator[HttpServer]:
    del key  # the fixture fills the store before the server starts
    server = HttpServer(url, SETTINGS, Listen(port=0), knows=lambda there: Authenticator(there.store, there.clock))
    server.start()
    yield server
    server.stop()


@pytest.mark.slow
@pytest.mark.timeout(0 if SOAK else 900)
def test_the_api_matches_its_document(serving: HttpServer, key: keys.Issued, tmp_path: Path):
    write(tmp_path, Orders(serving.url, key.text, key.key.id, None if SOAK else EXAMPLES))
    command = [sys.executable, "-m", "tests.server.schemathesis_process", str(tmp_path)]
    asker = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert asker.returncode == 0, asker.stdout
    found = json.loads((tmp_path / "found").read_text())
    shown = "\n\n".join(f"{label}: {told}" for label, told in found["wrong"][:MOST_SHOWN])
    assert not found["wrong"], f"seed {found['seed']}, {len(found['wrong'])} kinds of failures:\n\n{shown}"
    assert set(found["asked"]) == operations(describe_api()), "every operation must be tested"
