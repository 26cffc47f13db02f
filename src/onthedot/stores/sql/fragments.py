"""Pieces of SQL that get the same plan whatever the database's statistics are: docs/design/store-moves.md, "Plans".

Statements of the hot path get a long array as one text, as PostgreSQL writes it: `$1::text::bigint[]`. asyncpg needs
about 0.6 µs for each element of a list. With ten columns that is more than the server needs for a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from onthedot.clock import NEVER
from onthedot.stores.sql.port import Statement, sql

UNRESERVED = "state = 'scheduled', lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL"
"""Releases a run: it is scheduled, and no worker has reserved it."""

LISTED = f"[[r.due_at <= {NEVER} AND]]"
"""The predicate of PostgreSQL's index `runs_due`, which serves lists for people. It is true for each run."""

RUN_OF_HOLDER = """CROSS JOIN
[[LATERAL (SELECT * FROM runs WHERE id = g.run_id OFFSET 0) r]]<<runs r ON r.id = g.run_id>>"""
"""Joins the run `r` to its place `g` at a gate. The places are read first."""

HELD_BY = "[[g.until_end IN (true, false) AND +g.run_id]]<<g.run_id>>"
"""The run of a place `g` at a gate, to search by it: `{HELD_BY} {in1}`. Only the index `gate_holders_run` is over
`+run_id`, and the primary key is no substitute for the table, as it does not have `until_end`."""


def job_of(row: str) -> str:
    """Return SQL that joins the job `j` to a row with a `job_id`. BETWEEN instead of an equality makes the planner look
    up the job of each row.

    >>> job_of("r")
    'j.id BETWEEN +r.job_id AND +r.job_id'
    """
    return f"j.id BETWEEN +{row}.job_id AND +{row}.job_id"


def each_run(text: str, types: str, *, as_text: bool = False) -> Statement[Any]:
    """Make a statement for many runs from its text for one run: an UPDATE of the run, or an INSERT of values read from
    it. $1 is the run's id. `types` are the types of the first values, which differ by run. `as_text`: PostgreSQL's
    statement takes each array as one text, followed by the other values. SQLite's statement is for `each`.

    PostgreSQL finds the runs by their primary key. A full join adds the values of each run, because the server has to
    hash a full join. An UPDATE finds the rows by their physical places, because the rows are locked.
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
    """Make a statement for `Tx.scan` from its text for one line. `line` has the names and types of the line's values,
    which are the last values, from `$first` on. PostgreSQL reads line by line, so that each line uses its range of an
    index."""
    names, types = zip(*(value.split() for value in line.split(", ")), strict=True)
    arrays = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(types, first))
    of_line = re.sub(r"\$(\d+)", lambda n: n[0] if int(n[1]) < first else f"line.{names[int(n[1]) - first]}", text)
    lines = f"""
    SELECT found.*, line.number FROM unnest({arrays}) WITH ORDINALITY line ({", ".join(names)}, number)
    CROSS JOIN LATERAL ({of_line}) found
    """  # noqa: S608 - constants
    return sql(lines, sqlite=text) if row is None else sql(lines, row, sqlite=text)


def release_runs(which: str) -> Statement[Any]:
    """Return a statement that releases reserved runs and returns which they were. It locks them in order."""
    return sql(f"""
    UPDATE runs SET {UNRESERVED}, ready_at = due_at
    WHERE [[id = ANY(ARRAY(SELECT id FROM runs WHERE]] {which} AND state = 'reserved' [[ORDER BY id FOR UPDATE))]]
    RETURNING id
    """)  # noqa: S608 - constants


def numbers(values: Iterable[int | Literal["NULL"]]) -> str:
    """Return integers as one text, such as `{1,2,NULL}`."""
    return "{" + ",".join(map(str, values)) + "}"


def words(values: Sequence[str]) -> str:
    """Return texts as one text, such as `{"a","b c"}`."""
    if not values:
        return "{}"
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') > 2 * (len(values) - 1):
        joined = '","'.join(value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return f'{{"{joined}"}}'
