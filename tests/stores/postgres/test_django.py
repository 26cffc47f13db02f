"""Runs submitted inside of Django's `transaction.atomic()`, with Django's own `connection`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections, transaction

import onthedot as otd
from onthedot.model.errors import DefinitionError, StateError
from onthedot.operations.run_request import OUTSIDE, given_connection
from onthedot.stores.postgres.caller_transaction import caller_of
from tests.stores.postgres.test_caller_transaction import PREPARE, bound, call, orders, program

NO_TRANSACTION = r"transaction that is open, got one without; submit inside of 'with transaction.atomic\(\):'"


@pytest.fixture
def url(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database that Django is connected to, too."""
    with psycopg.connect(empty_url, autocommit=True) as db:
        db.execute(PREPARE)
    yield from django_on(monkeypatch, ENGINE="django.db.backends.postgresql", **address_of(empty_url), then=empty_url)


def address_of(url: str) -> dict[str, Any]:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    return {name: parts[part] for name, part in names.items()}


def django_on(monkeypatch: pytest.MonkeyPatch, *, then: str, **database: Any) -> Iterator[str]:
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    monkeypatch.setattr(connections, "settings", connections.configure_settings({"default": database}))
    if hasattr(connections._connections, "default"):
        del connections["default"]
    yield then
    connections["default"].close()
    del connections["default"]


@pytest.fixture
def blocking(url: str) -> Iterator[otd.BlockingScheduler]:
    with otd.BlockingScheduler(program(url)) as blocking:
        yield blocking


def insert(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [number])


def test_a_committed_submit_starts_and_sees_the_callers_writes(blocking: otd.BlockingScheduler, url: str):
    with transaction.atomic():
        insert(7)
        run = blocking.submit(*call(7), connection=connection)
        assert blocking.get_run(run) is None
        insert(8)
    assert blocking.result(run, timeout="20s") == "t1: 7"
    assert orders(url) == [7, 8]


def test_a_rolled_back_submit_leaves_nothing(blocking: otd.BlockingScheduler, url: str):
    with transaction.atomic():
        insert(7)
        blocking.submit(*call(7), connection=connection)
        transaction.set_rollback(True)
    with transaction.atomic():
        insert(8)
        with transaction.atomic():  # a savepoint
            blocking.submit_many([bound(8)], connection=connection)
            transaction.set_rollback(True)
    assert (orders(url), blocking.list_runs()) == ([8], [])


def test_the_connection_wrapper_and_transactions_without_atomic_are_accepted(blocking: otd.BlockingScheduler):
    with transaction.atomic():
        blocking.submit(*call(1), connection=connections["default"])
    transaction.set_autocommit(False)
    blocking.submit(*call(2), connection=connection)
    transaction.rollback()
    blocking.submit(*call(3), connection=connection)
    transaction.commit()
    transaction.set_autocommit(True)
    assert len(blocking.list_runs()) == 2


def test_a_submit_without_a_transaction_is_refused_and_stores_nothing(blocking: otd.BlockingScheduler):
    with pytest.raises(StateError, match=NO_TRANSACTION):
        blocking.submit(*call(1), connection=connection)  # not even connected
    insert(1)
    with pytest.raises(StateError, match=NO_TRANSACTION):
        blocking.submit(*call(1), connection=connection)
    connection.close()
    with pytest.raises(DefinitionError, match=r"got None; .* with Django, give 'django.db.connection' itself"):
        blocking.submit(*call(1), connection=connection.connection)
    with pytest.raises(DefinitionError, match="got None"):
        blocking.submit_many([], connection=None)
    assert blocking.list_runs() == []


def test_another_database_of_django_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    name = str(tmp_path / "django.db")
    for _ in django_on(monkeypatch, ENGINE="django.db.backends.sqlite3", NAME=name, then=""):
        with transaction.atomic(), pytest.raises(DefinitionError, match="to PostgreSQL, got one to sqlite"):
            caller_of(given_connection(connection))


def test_django_on_the_older_driver_is_refused():
    old = type("connection", (), {"__module__": "psycopg2.extensions"})
    fields = {"__module__": "django.db.backends.postgresql.base", "vendor": "postgresql", "connection": old()}
    wrapper = type("DatabaseWrapper", (), {**fields, "autocommit": True, "in_atomic_block": True})
    with pytest.raises(DefinitionError, match="expected Django with psycopg 3, got it with psycopg2"):
        caller_of(wrapper())


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_a_missing_connection_is_refused_by_every_store(store: str, tmp_path: Path):
    async with program(store if store == "memory:" else f"sqlite:///{tmp_path}/one.db") as sched:
        with pytest.raises(DefinitionError, match="leave 'connection' out to submit without one"):
            await sched.submit(*call(1), connection=None)
        with pytest.raises(DefinitionError, match="expected a store that can take part in a transaction of yours"):
            await sched.submit(*call(1), connection=object())
        await sched.submit(*call(1), connection=OUTSIDE)
        assert len(await sched.list_runs()) == 1
