"""Runs each scenario on each store that several processes can share, and keeps the pictures of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer


@pytest.fixture(autouse=True)
def _timeline(timeline_kept: None) -> None:
    """Keep the timeline of every test in this folder."""


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'chaos.db'}"
    if request.param == "redis":
        valkey: ValkeyServer = request.getfixturevalue("valkey_server")
        return valkey.url()
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.create_database()
