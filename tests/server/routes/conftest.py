"""Fixtures: a server with two jobs, callers with different rights, and a node."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Call
from tests.server.kit import Served, served
from tests.server.worker import Worker

STRANGERS = ({"namespaces": ("other",)}, {"owner": "bob", "only_own": True})
"""Principals that cannot see ann's objects in the default namespace."""


@pytest.fixture
async def server() -> AsyncGenerator[Served]:
    async with served() as one:
        verbs = one.there.verbs()
        await verbs.put(otd.Job(name="mail", task=Call(handler="mail"), owner="ann"))
        greet = otd.Command(argv=("echo", "${{ params.name }}"))
        params = (otd.Param(name="name", default="you"),)
        await verbs.put(otd.Job(name="greet", task=greet, params=params, owner="ann"))
        yield one


@pytest.fixture
def worker(server: Served, tmp_path: Path) -> Worker:
    return Worker(server.there, tmp_path)


@pytest.fixture
def operator(server: Served) -> dict[str, str]:
    return server.keys.add(Role.OPERATOR)


@pytest.fixture
def viewer(server: Served) -> dict[str, str]:
    return server.keys.add(Role.VIEWER)


@pytest.fixture(params=STRANGERS, ids=["other namespace", "other owner"])
def stranger(server: Served, request: pytest.FixtureRequest) -> dict[str, str]:
    return server.keys.add(Role.ADMIN, **request.param)
