"""The port between the moves and a SQL database: one transaction, and statements in two dialects.

A move is an `async def name(tx, ...)`. PostgreSQL awaits it. SQLite's transaction never suspends, so `run_now` runs the
move to its end on the thread that owns the connection.

A statement has one text for both databases:

    $1, $2        values; a list is an array for PostgreSQL and JSON for SQLite
    {in1}         "is one of the values in list $1"; {not_in1} is the opposite
    [[...]]       for PostgreSQL only: locks and casts
    <<...>>       for SQLite only: INDEXED BY
    {now}         the store's clock
    {greatest}, {least}, {is_slot}, {is_no_slot}, {slot_trigger}

Why many statements have an unusual shape: docs/design/store-moves.md, "Plans".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from zlib import crc32

from onthedot.clock import Clock, Micros
from onthedot.model.run import SLOT_PREFIX, NewRun
from onthedot.model.verdict import Finish
from onthedot.stores.hints import Hint, Hints
from onthedot.stores.values import About

if TYPE_CHECKING:
    from onthedot.stores.sql.records import Records

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")

Now = Micros | None
"""The clock of a test. None: the store's own."""

Move = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
"""An `async def` whose first argument is a transaction."""

_PLACES = range(1, 16)

_POSTGRES = {
    "is_slot": f"trigger LIKE '{SLOT_PREFIX}%'",
    "is_no_slot": f"trigger NOT LIKE '{SLOT_PREFIX}%'",
    "slot_trigger": f"('{SLOT_PREFIX}' || schedule_id)",
    "now": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    "greatest": "greatest",
    "least": "least",
    **{f"in{n}": f"= ANY(${n})" for n in _PLACES},
    **{f"not_in{n}": f"<> ALL(${n})" for n in _PLACES},
}

_IN_JSON = "IN (SELECT value FROM json_each(${}))"

_SQLITE = _POSTGRES | {
    "is_slot": f"trigger GLOB '{SLOT_PREFIX}*'",
    "is_no_slot": f"trigger NOT GLOB '{SLOT_PREFIX}*'",
    "now": "onthedot_now()",  # the store's clock, as a function of the connection
    "greatest": "max",
    "least": "min",
    **{f"in{n}": _IN_JSON.format(n) for n in _PLACES},
    **{f"not_in{n}": "NOT " + _IN_JSON.format(n) for n in _PLACES},
}


@dataclass(frozen=True, slots=True, eq=False)
class Statement(Generic[R_co]):
    """A statement in both dialects. `make` builds a row of the statement's type, if it has one."""

    postgres: str
    sqlite: str
    bulk: str | None  # PostgreSQL's text for `each`: one array per column
    make: Callable[[Any], R_co] | None


@overload
def sql(text: str, *, sqlite: str | None = ..., bulk: str | None = ..., arrays: str = ...) -> Statement[Any]: ...
@overload
def sql(text: str, row: Callable[..., R], *, sqlite: str | None = ...) -> Statement[R]: ...
def sql(
    text: str, row: Callable[..., Any] | None = None, *, sqlite: str | None = None, bulk: str | None = None,
    arrays: str = "",
) -> Statement[Any]:  # fmt: skip
    """Make a statement from one text. `row` makes its rows, mostly a NamedTuple in the order of the columns.

    `sqlite` is a different text for SQLite, if one is needed. For hot paths, `Tx.each` gives PostgreSQL one array per
    value. `arrays` are the types of the values. `bulk` is the whole text, if it cannot be made from `text`.

    >>> held = sql("SELECT key FROM gate_holders WHERE run_id {in1} [[FOR UPDATE]]")
    >>> held.postgres
    'SELECT key FROM gate_holders WHERE run_id = ANY($1) FOR UPDATE'
    >>> held.sqlite
    'SELECT key FROM gate_holders WHERE run_id IN (SELECT value FROM json_each(?1)) '
    """
    make = None if row is None else getattr(row, "_make", None) or (lambda values: row(*values))
    if arrays:
        bulk = _over_arrays(text, arrays.split())
    return Statement(
        _for_postgres(text), _for_sqlite(sqlite or text), None if bulk is None else _for_postgres(bulk), make
    )


def _over_arrays(text: str, types: Sequence[str]) -> str:
    """Turn an INSERT or UPDATE of one row into one for arrays of values.

    >>> _over_arrays("UPDATE runs SET rank = $1 WHERE id = $2", ["integer", "bigint"])
    'UPDATE runs SET rank = given.v1 FROM unnest($1::integer[], $2::bigint[]) given (v1, v2) WHERE id = given.v2'
    """
    values = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(types, 1))
    given = f"FROM unnest({values}) given ({', '.join(f'v{n}' for n in range(1, len(types) + 1))})"
    text = re.sub(r"\$(\d+)", r"given.v\1", text)
    if "VALUES" in text:
        return re.sub(r"VALUES \((.*?)\)", rf"SELECT \1 {given}", text)
    return text.replace("WHERE", f"{given} WHERE")


def wanted_pairs(first: str, second: str) -> str:
    """Return a table `wanted` of the values in lists $1 and $2. Its columns have the given names and types.

    It is MATERIALIZED, so that SQLite makes an index of the second list. Without the index, 1,000 definitions took 240
    ms.
    """
    (a, a_type), (b, b_type) = first.split(), second.split()
    return f"""[[unnest($1::{a_type}[], $2::{b_type}[]) wanted ({a}, {b})]]<<(
    WITH others AS MATERIALIZED (SELECT key, value FROM json_each($2))
    SELECT given.value AS {a}, others.value AS {b}
    FROM json_each($1) given CROSS JOIN others ON others.key = given.key) wanted>>"""  # noqa: S608 - constants


def _for_postgres(text: str) -> str:
    text = re.sub(r"<<.*?>>", "", text, flags=re.DOTALL)
    return re.sub(r"\[\[(.*?)\]\]", r"\1", text, flags=re.DOTALL).format(**_POSTGRES)


def _for_sqlite(text: str) -> str:
    text = re.sub(r"\[\[.*?\]\]", "", text, flags=re.DOTALL)
    text = re.sub(r"<<(.*?)>>", r"\1", text, flags=re.DOTALL).format(**_SQLITE)
    return re.sub(r"\$(\d)", r"?\1", text)


class Contended(Exception):
    """Another transaction holds a lock that this one needs, or was faster. This one is undone and starts again."""


class Tx(Protocol):
    """One transaction. Rows have the type of their statement, or are plain tuples to unpack."""

    hints: list[Hint]  # sent once it is committed
    records: Records

    @property
    def concurrent(self) -> bool:
        """Whether other transactions write at the same time. If so, rows and keys are locked."""

    async def rows(self, statement: Statement[R], *values: object) -> list[R]:
        """Return all rows."""

    async def row(self, statement: Statement[R], *values: object) -> R | None:
        """Return the first row, or None."""

    async def values(self, statement: Statement[Any], *values: object) -> list[Any]:
        """Return the first value of each row."""

    async def value(self, statement: Statement[Any], *values: object) -> Any:
        """Return the first value of the first row, or None."""

    async def do(self, statement: Statement[Any], *values: object) -> int:
        """Change rows. Return how many."""

    async def each(self, statement: Statement[Any], rows: Sequence[Sequence[Any]]) -> None:
        """Run the statement with each of these rows of values. With `bulk`, no two of them may change the same row."""

    async def scan(self, statement: Statement[R], lines: Sequence[Sequence[Any]], *values: object) -> list[Iterable[R]]:
        """Return the rows of each line, in the order of the lines. A line's values are the last values of the
        statement.

        PostgreSQL reads all lines with one statement. The statement takes an array for each value of a line, and ends
        each row with the number of its line. SQLite reads a line only as far as the caller takes its rows.
        """

    async def clock(self, now: Now) -> Micros:
        """Return the instant of this call."""

    async def numbers(self, name: str, count: int) -> Sequence[int]:
        """Return the next numbers of a sequence (job, run, fence, document). No number is used twice."""

    async def lock_keys(self, keys: Iterable[str], *, late: bool = False) -> None:
        """Lock keys until the transaction ends. `late`: rows are already locked, so start again instead of waiting."""

    async def make_room(self, instants: Iterable[Micros]) -> None:
        """Create the partitions of history that these instants need."""


class Database(Protocol):
    """A SQL database: it runs moves in transactions."""

    hints: Hints
    records: Records

    @property
    def clock(self) -> Clock | None:
        """This machine's clock, if the store uses it as its own."""

    @property
    def any_loop(self) -> bool:
        """Whether any event loop may use the database, not only the loop that connected it."""

    async def tell_time(self) -> Micros:
        """Return the time of the store's clock."""

    async def write(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a move for which others may wait. The move is committed when this returns."""

    async def write_long(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a move that may take a long time."""

    async def write_many(self, count: int, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a move over `count` new rows. With more rows it may take longer."""

    async def look(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a move that reads for the engine. It reads one snapshot, and waits for no other transaction."""

    async def read(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a move that reads for people. It delays no other caller."""

    async def finish_plain(self, finishes: Sequence[Finish]) -> frozenset[str]:
        """Fast path: end runs on which nothing else depends, in one commit. Return the accepted lease ids."""

    async def submit_new(self, runs: Sequence[NewRun], now: Now) -> list[int] | None:
        """Fast path: store new runs without keys in one commit, and return their ids. None: it stored nothing, use the
        move."""

    async def read_short(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a short move that reads little, for people or the engine. It delays no other caller."""

    async def drop_room(self, until: Micros) -> None:
        """Drop one partition of history that is over by this instant, empty, and not in use."""

    def know_lease(self, ttl: Micros) -> None:
        """Note that a node with this lease uses the database."""

    async def about(self) -> About:
        """Return what the database is, and what it guarantees."""

    async def close(self) -> None:
        """Release files, threads and connections. All acknowledged writes are kept."""


STRIPES = 1024
"""The number of locks for all keys of one kind. A server has room for some thousand locks at a time."""


def striped(kind: str, key: str) -> str:
    """Return the name of the lock for a key. Other keys may share the lock.

    >>> striped("gate", "limit:job:7:")
    'gate:0250'
    """
    return f"{kind}:{crc32(key.encode()) % STRIPES:04}"


def plain(text: str | None) -> str | None:
    """Replace the characters that PostgreSQL cannot store: NUL and lone surrogates.

    >>> plain("fine"), plain("a\\0b\\ud800")
    ('fine', 'a?b?')
    """
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "?").encode("utf-8", "replace").decode()
