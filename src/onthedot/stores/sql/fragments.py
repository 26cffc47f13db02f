"""Pieces of SQL with one plan in any database, whatever its statistics: docs/design/store-moves.md, "Plans".

Also long arrays as PostgreSQL writes them, for the statements of the hot path: `$1::text::bigint[]`. asyncpg looks at
every element of a list, some 0.6 µs each: with ten columns that is more than the server takes for a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from onthedot.clock import NEVER
from onthedot.stores.sql.port import Statement, sql

UNRESERVED = "state = 'scheduled', lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL"
"""Sets a run free: it waits, and nobody has reserved it."""

LISTED = f"[[r.due_at <= {NEVER} AND]]"
"""The predicate of PostgreSQL's index `runs_due`, which is for lists that people read. It is true for each run."""

RUN_OF_HOLDER = """CROSS JOIN
[[LATERAL (SELECT * FROM runs WHERE id = g.run_id OFFSET 0) r]]<<runs r ON r.id = g.run_id>>"""
"""Joins the run `r` to its place `g` at a gate: the places are read first."""

HELD_BY = "[[g.until_end IN (true, false) AND +g.run_id]]<<g.run_id>>"
"""The run of a place `g` at a gate, to search by it: `{HELD_BY} {in1}`. Only the index `gate_holders_run` is over
`+run_id`, and the primary key is no substitute for the table, as it does not have `until_end`."""


def job_of(row: str) -> str:
    """Joins the job `j` to a row that has a `job_id`. It is no equality: the only way is to look up the job of each
    row.

    >>> job_of("r")
    'j.id BETWEEN +r.job_id AND +r.job_id'
    """
    return f"j.id BETWEEN +{row}.job_id AND +{row}.job_id"


def each_run(text: str, types: str, *, as_text: bool = False) -> Statement[Any]:
    """A statement for each of some runs, from its text for one: the UPDATE of a run, or the INSERT of what is read from
    it. `types` are those of its first values, which differ by run; $1 is its id. `as_text`: PostgreSQL's statement has
    the arrays, each as one text, and the other values behind them; SQLite's is for `each`.

    PostgreSQL finds the runs by their primary key. The values of each come by a full join, because the server has to
    hash that. An UPDATE takes the rows by their places: they are locked.
    """
    arrays = [f"${n}::text::{kind}[]" if as_text else f"${n}::{kind}[]" for n, kind in enumerate(types.split(), 1)]
    given = f"unnest({', '.join(arrays)}) given ({', '.join(f'v{n}' for n in range(1, len(arrays) + 1))})"
    ids = f"ANY((SELECT {arrays[0]})::bigint[])"  # read once: without SELECT, for each row
    bulk = re.sub(r"\$(\d+)", lambda place: f"given.v{place[1]}" if int(place[1]) <= len(arrays) else place[0], text)
    if "UPDATE" in bulk:
        change, only = bulk.split("WHERE id = given.v1")
        bulk = f"""
        WITH given AS MATERIALIZED (
            SELECT r.place, given.* FROM (SELECT ctid AS place, id FROM runs WHERE id = {ids}) r
            FULL JOIN {given} ON given.v1 = r.id WHERE coalesce(given.v1 = r.id, false))
        {change} FROM given WHERE runs.ctid = given.place {only}"""  # noqa: S608 - constants
    else:
        read, only = bulk.split("FROM runs r WHERE")
        bulk = f"""{read} FROM (SELECT * FROM runs WHERE id = {ids}) r FULL JOIN {given} ON given.v1 = r.id
        WHERE coalesce({only}, false)"""  # noqa: S608 - constants
    return sql(bulk, sqlite=text) if as_text else sql(text, bulk=bulk)


def each_line(text: str, line: str, row: type[Any] | None = None, *, first: int = 1) -> Statement[Any]:
    """A statement for `Tx.scan`, from its text for one line. `line` are the names and types of the line's values, which
    are the last ones: from `$first` on. PostgreSQL goes line by line, so that each finds its range of an index."""
    names, types = zip(*(value.split() for value in line.split(", ")), strict=True)
    arrays = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(types, first))
    of_line = re.sub(r"\$(\d+)", lambda n: n[0] if int(n[1]) < first else f"line.{names[int(n[1]) - first]}", text)
    lines = f"""
    SELECT found.*, line.number FROM unnest({arrays}) WITH ORDINALITY line ({", ".join(names)}, number)
    CROSS JOIN LATERAL ({of_line}) found
    """  # noqa: S608 - constants
    return sql(lines, sqlite=text) if row is None else sql(lines, row, sqlite=text)


def release_runs(which: str) -> Statement[Any]:
    """Gives reserved runs back; which ones. They are locked in order."""
    return sql(f"""
    UPDATE runs SET {UNRESERVED}, ready_at = due_at
    WHERE [[id = ANY(ARRAY(SELECT id FROM runs WHERE]] {which} AND state = 'reserved' [[ORDER BY id FOR UPDATE))]]
    RETURNING id
    """)  # noqa: S608 - constants


def numbers(values: Iterable[int | Literal["NULL"]]) -> str:
    """Integers as one text, such as `{1,2,NULL}`."""
    return "{" + ",".join(map(str, values)) + "}"


def words(values: Sequence[str]) -> str:
    """Texts as one text, such as `{"a","b c"}`."""
    if not values:
        return "{}"
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') > 2 * (len(values) - 1):
        joined = '","'.join(value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return f'{{"{joined}"}}'
