"""The PgBouncer of the tests: clients share sessions of the server, and a transaction has its own."""

from __future__ import annotations

import psycopg

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import name_of


def test_two_clients_share_one_session_of_the_server(pgbouncer: PgBouncer, postgres_url: str):
    url = pgbouncer.url(name_of(postgres_url))
    with psycopg.connect(url, autocommit=True) as one, psycopg.connect(url, autocommit=True) as other:
        first = one.execute("SELECT pg_backend_pid()").fetchone()
        second = other.execute("SELECT pg_backend_pid()").fetchone()
        assert first == second


def test_a_transaction_has_its_own_session(pgbouncer: PgBouncer, postgres_url: str):
    url = pgbouncer.url(name_of(postgres_url))
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        first = one.execute("SELECT pg_backend_pid()").fetchone()
        second = other.execute("SELECT pg_backend_pid()").fetchone()
        assert first != second
