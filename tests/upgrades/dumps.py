"""Writes a store as text, and loads this text into an empty store. It knows no table and no key of onthedot.

The text contains the schema of its time: SQL for SQLite and PostgreSQL, one command per line for Redis and Valkey.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from redis import Redis

SCHEMA = "onthedot"
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"')


# ── SQLite ───────────────────────────────────────────────────────────────────────────────────────────────────


def dump_sqlite(path: Path) -> str:
    """Returns the statements that make this file again."""
    db = sqlite3.connect(path)
    try:
        lines = list(db.iterdump())
        for name in ("application_id", "user_version"):
            [value] = db.execute(f"PRAGMA {name}").fetchone()
            lines.insert(1, f"PRAGMA {name} = {value};")
        return "\n".join(lines) + "\n"
    finally:
        db.close()


def load_sqlite(text: str, path: Path) -> None:
    """Make a new file."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.executescript(text)
    finally:
        db.close()


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────


def dump_postgres(url: str, migrations: Iterable[str]) -> str:
    """Returns the migrations of that time, the partitions, the rows, and the positions of the sequences."""
    with psycopg.connect(url) as db:
        return "\n".join(
            [
                f"CREATE SCHEMA {SCHEMA};",
                f"SET search_path = {SCHEMA};",
                "CREATE TABLE migrations (number integer PRIMARY KEY, name text NOT NULL);",
                *migrations,
                *_partitions(db),
                *_rows(db),
                *_sequences(db),
                "",
            ]
        )


def _partitions(db: psycopg.Connection) -> Iterator[str]:
    listed = db.execute(
        "SELECT c.relname, p.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_class c "
        "JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class p ON p.oid = i.inhparent "
        "WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' ORDER BY 1",
        [SCHEMA],
    )
    for name, parent, bounds in listed.fetchall():
        yield f"CREATE TABLE {name} PARTITION OF {parent} {bounds};"


def _rows(db: psycopg.Connection) -> Iterator[str]:
    tables = db.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') "
        "AND NOT relispartition ORDER BY 1",
        [SCHEMA],
    )
    names = [table for (table,) in tables.fetchall()]
    yield f"TRUNCATE {', '.join(names)};"  # some rows come from the migrations
    for table in names:
        columns = db.execute(
            "SELECT attname, attidentity <> '' FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND NOT attisdropped ORDER BY attnum",
            [f"{SCHEMA}.{table}"],
        ).fetchall()
        values = sql.SQL(" || ', ' || ").join(
            sql.SQL("quote_nullable({})").format(sql.Identifier(name)) for name, _ in columns
        )
        found = db.execute(
            sql.SQL("SELECT {} FROM {}.{}").format(values, sql.Identifier(SCHEMA), sql.Identifier(table))
        )
        listed = ", ".join(name for name, _ in columns)
        overriding = " OVERRIDING SYSTEM VALUE" if any(identity for _, identity in columns) else ""
        rows = sorted(row for (row,) in found.fetchall())
        if rows:
            yield f"INSERT INTO {table} ({listed}){overriding} VALUES\n" + ",\n".join(f"({row})" for row in rows) + ";"


def _sequences(db: psycopg.Connection) -> Iterator[str]:
    listed = db.execute("SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = %s ORDER BY 1", [SCHEMA])
    for name, last in listed.fetchall():
        if last is not None:
            yield f"SELECT setval('{SCHEMA}.{name}', {last});"


def load_postgres(text: str, url: str) -> None:
    """Make the schema in a database that has no schema of this name."""
    with psycopg.connect(url) as db:
        db.execute(text.encode())


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────


def dump_redis(url: str) -> str:
    """Returns one command per line, with values quoted as `redis-cli` quotes them."""
    with Redis.from_url(url) as server:
        lines = []
        for key in sorted(server.scan_iter()):
            assert server.pttl(key) == -1, f"{key!r} expires, but this script does not keep expiries"
            lines.append(" ".join([*_command(server, key)]))
        return "\n".join([*lines, ""])


def _command(server: Redis, key: bytes) -> Iterator[str]:
    kind = server.type(key)
    values: list[Any]
    if kind == b"hash":
        yield "HSET"
        values = [each for pair in sorted(server.hgetall(key).items()) for each in pair]
    elif kind == b"zset":
        yield "ZADD"
        scored: list[Any] = list(server.zrange(key, 0, -1, withscores=True))
        values = [each for name, score in scored for each in (_score(score), name)]
    elif kind == b"set":
        yield "SADD"
        values = sorted(server.smembers(key))
    elif kind == b"string":
        yield "SET"
        values = [server.get(key)]
    else:
        raise AssertionError(f"{key!r} is a {kind!r}: this script does not know how to write that")
    yield from map(_quoted, [key, *values])


def _score(score: float) -> bytes:
    return (str(int(score)) if score.is_integer() else repr(score)).encode()


def _quoted(value: bytes) -> str:
    shown = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n"}
    return '"' + "".join(shown.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in value) + '"'


def load_redis(text: str, url: str) -> None:
    """Send the commands to an empty server."""
    with Redis.from_url(url) as server:
        assert server.dbsize() == 0
        for line in text.splitlines():
            command, _, rest = line.partition(" ")
            server.execute_command(command, *(ast.literal_eval("b" + value) for value in _VALUE.findall(rest)))
