"""The options of a PostgreSQL URL: what they mean, their defaults, and which are refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import onthedot as otd
from onthedot.model.errors import DefinitionError
from onthedot.stores.addresses import exposed
from onthedot.stores.connect import open_store
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.connections import read_url


def test_our_options_are_removed_and_others_go_to_the_library():
    url = "postgresql://me:secret@db:6432/shop?schema=jobs&sslmode=verify-full&sslrootcert=%2Fca.pem&pooler=transaction"
    address = read_url(url + "&listen_url=postgresql%3A%2F%2Fdb%2Fshop&connections=4&timeout=2.5")
    assert address.dsn == "postgresql://me:secret@db:6432/shop?sslmode=verify-full&sslrootcert=%2Fca.pem"
    assert (address.schema, address.pooled, address.connections, address.timeout) == ("jobs", True, 4, 2.5)
    assert address.listen_dsn is not None
    assert address.listen_dsn.startswith("postgresql://db/shop?sslmode=verify-full")


@pytest.mark.parametrize(
    "host", ["", "localhost", "LOCALHOST:5432", "127.0.0.1", "127.9.9.9:6432", "[::1]:5432", "%2Frun%2Fpostgresql"]
)
def test_tls_is_not_required_on_this_machine(host: str):
    url = f"postgresql://me:secret@{host}/shop"
    assert read_url(url).dsn == url
    assert exposed(url) == ""


@pytest.mark.parametrize(
    "host", ["db", "db:6432", "10.0.0.7", "[fe80::1]", "localhost,db", "localhost.example.org", "127.0.0.1.example.org"]
)
def test_tls_with_a_checked_certificate_is_required_on_another_machine(host: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PGSSLMODE", raising=False)
    url = f"postgresql://me:secret@{host}/shop"
    address = read_url(f"{url}?schema=jobs")
    assert address.dsn.startswith(f"{url}?sslmode=verify-full&sslrootcert=")
    assert address.listen_dsn == address.dsn
    assert exposed(url) == ""


@pytest.mark.parametrize("mode", ["disable", "prefer", "require", "verify-ca"])
def test_a_weaker_tls_mode_of_the_url_is_used_and_reported(mode: str, monkeypatch: pytest.MonkeyPatch):
    url = f"postgresql://db/shop?sslmode={mode}"
    assert read_url(url).dsn == url
    assert exposed(url).endswith("; use sslmode=verify-full")
    assert exposed(url).startswith("not encrypted" if mode in ("disable", "prefer") else "encrypted, but")
    monkeypatch.setenv("PGSSLMODE", mode)
    assert read_url("postgresql://db/shop").dsn == "postgresql://db/shop"
    assert exposed("postgresql://db/shop") == exposed(url)


def test_the_users_own_root_certificate_is_kept(monkeypatch: pytest.MonkeyPatch):
    own = "postgresql://db/shop?sslrootcert=%2Fca.pem"
    assert read_url(own).dsn == f"{own}&sslmode=verify-full"
    monkeypatch.setenv("PGSSLROOTCERT", "/ca.pem")
    assert read_url("postgresql://db/shop").dsn == "postgresql://db/shop?sslmode=verify-full"
    monkeypatch.setenv("PGHOST", "db")
    assert read_url("postgresql:///shop").dsn == "postgresql:///shop?sslmode=verify-full"


def test_a_shown_url_has_no_password():
    assert read_url("postgres://me:secret@db/shop?password=x").shown == "postgres://me:***@db/shop"


def test_a_store_does_not_listen_through_a_pooler():
    assert read_url("postgresql://db/shop?pooler=transaction").listen_dsn is None
    assert read_url("postgresql://localhost/shop").listen_dsn == "postgresql://localhost/shop"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("schema=Shop", "option schema: expected a name of small letters, digits and underscores, got 'Shop'"),
        ("schema=a;drop", "got 'a;drop'"),
        ("pooler=session", "option pooler: expected 'none' or 'transaction'"),
        ("connections=many", "option connections: expected a number from 2 on, got 'many'"),
        ("connections=1", "option connections: expected a number from 2 to 1000, got '1'"),
        ("timeout=0", "option timeout: expected a number from 0.1 to 1000, got '0'"),
    ],
)
def test_an_invalid_option_is_refused(options: str, words: str):
    with pytest.raises(DefinitionError, match="store URL, option") as refused:
        read_url(f"postgresql://db/shop?{options}")
    assert words in str(refused.value)


async def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(DefinitionError, match=r"pip install 'onthedot\[postgres\]'"):
        await open_store("postgresql://db/shop")


@contextmanager
def role_of(url: str, name: str, settings: str = "") -> Iterator[str]:
    """A role that may make schemas in this database; the URL with it. Afterwards it is gone, with all that it owns."""
    database = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE {database} TO {name}; {settings}")
        try:
            yield url.replace(url.split("//")[1].split("@")[0], f"{name}:x")
        finally:
            db.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


SHOP = f"shop_role_{os.getpid()}"
"""A role: other test processes have their own on the same server."""

REMEDY = f"ALTER ROLE {SHOP} SET search_path = public"


@pytest.mark.parametrize(
    ("schema", "settings", "mixed"),
    [
        (SHOP, "", True),  # the default path is "$user", public
        ("onthedot", "", False),
        ("onthedot", f"ALTER ROLE {SHOP} SET search_path = public, onthedot", True),
        (SHOP, REMEDY, False),
    ],
    ids=["named like the schema", "named otherwise", "path with the schema", "path without it"],
)
async def test_a_schema_in_the_search_path_of_its_role_gives_a_warning(
    schema: str, settings: str, mixed: bool, postgres_url: str, caplog: pytest.LogCaptureFixture
):
    with role_of(postgres_url, SHOP, settings) as url:
        store = await PostgresStore.open(f"{url}?schema={schema}")
        caution = (await store.about()).caution
        await store.close()
        async with otd.Scheduler(f"{url}?schema={schema}"):
            warnings = [record.getMessage() for record in caplog.records if "search path" in record.getMessage()]
    assert bool(caution) == mixed
    assert len(warnings) == mixed
    for text in (caution, *warnings) if mixed else ():
        assert f"the search path of the role {SHOP} (" in text
        assert f"the schema {schema} of the store" in text
        assert text.endswith("; use another role, or, if your tables are in public, " + REMEDY)
        assert ":x@" not in text
