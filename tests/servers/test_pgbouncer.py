"""The pooler pools transactions: what a session knows is not there in the next one."""

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


def test_a_transaction_has_its_session_for_itself(pgbouncer: PgBouncer, postgres_url: str):
    url = pgbouncer.url(name_of(postgres_url))
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        first = one.execute("SELECT pg_backend_pid()").fetchone()
        second = other.execute("SELECT pg_backend_pid()").fetchone()
        assert first != second
