"""Runs that are submitted inside a transaction of the caller's own: the same statements, on the caller's connection.

All behind a savepoint, so that what is refused leaves the transaction as it was, and with our search path for as long.
Hints go by NOTIFY in the transaction itself, unlike those of our own writes: nobody else knows when it is committed.
Nothing is held that strangers need: no queue that is shared fairly, or workers would wait for the caller's commit, and
no lock that several keys share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from onthedot.clock import Micros
from onthedot.errors import StateError
from onthedot.job import JobRecord
from onthedot.run import NewRun
from onthedot.stores.joining import Joined
from onthedot.stores.postgres.callers import Caller, caller_of, code_of
from onthedot.stores.postgres.connections import Connection
from onthedot.stores.postgres.submitting import submit_runs
from onthedot.stores.postgres.tables import Tables
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.wakeup import channel_of

SAVE = "SAVEPOINT onthedot_submit"
UNDO = "ROLLBACK TO SAVEPOINT onthedot_submit"
RELEASE = "RELEASE SAVEPOINT onthedot_submit"

# The search path as it was; and how many of the jobs are here, as they were made.
ENTER = """
SELECT current_setting('search_path'), set_config('search_path', $1, true),
       (SELECT count(*) FROM {schema}.jobs j JOIN unnest($2::bigint[], $3::bigint[]) known (id, created_at)
        ON j.id = known.id AND j.created_at = known.created_at)
"""

LEAVE = "SELECT set_config('search_path', $1, true), pg_notify($2, $3)"

# Each asking draws triggers of its own: the runs that have them are new.
LIST_CREATED = "SELECT id FROM runs WHERE id = ANY($1::bigint[]) AND trigger = ANY($2::text[])"

KEY_TAKEN = "23505"
TRIES = 5

NO_TRANSACTION = ("25P01",)
NO_TABLES = ("3F000", "42P01", "42703")


class Joining(Tables):
    """See `Joins`."""

    def blocks(self, connection: Any) -> bool:
        return caller_of(connection).blocks

    async def submit_within(
        self, connection: Any, runs: Sequence[NewRun], jobs: Sequence[JobRecord], *, now: Micros | None = None
    ) -> list[Joined]:
        caller = caller_of(connection)
        await self._save(caller)
        for number in range(TRIES):
            try:
                joined = await self._submit(caller, runs, jobs, now)
            except Exception as error:
                await self._undo(caller, error)
                if code_of(error) == KEY_TAKEN and number < TRIES - 1:
                    continue  # by somebody whose commit we have waited for: now we see it
                if code_of(error) in NO_TABLES:
                    raise self._elsewhere() from error
                raise
            await caller.execute(RELEASE)
            return joined
        raise AssertionError("unreachable")

    async def _save(self, caller: Caller) -> None:
        try:
            await caller.execute(SAVE)
        except Exception as error:
            if code_of(error) in NO_TRANSACTION:
                raise StateError(
                    "connection: expected one with a transaction that is open, got one without; begin a transaction, "
                    "and submit inside of it"
                ) from error
            raise

    async def _undo(self, caller: Caller, error: Exception) -> None:
        """Leave the transaction as it was, if it can be reached: the first error is the one to be told."""
        try:
            await caller.execute(UNDO)
        except Exception as second:  # noqa: BLE001 - of whichever library
            error.add_note(f"The transaction could not be brought back to where it was: {second}")

    async def _submit(
        self, caller: Caller, runs: Sequence[NewRun], jobs: Sequence[JobRecord], now: Micros | None
    ) -> list[Joined]:
        tx = Transaction(cast(Connection, caller))
        schema = self.address.schema
        ids, made = [job.id for job in jobs], [job.created_at for job in jobs]
        path, _, known = await tx.row(ENTER.format(schema=schema), schema, ids, made)
        if known != len(jobs):
            raise self._elsewhere()
        found = await submit_runs(tx, runs, await tx.clock(now), joined=True)
        triggers = [run.trigger for run in runs]
        keyed = any(run.key for run in runs)
        created = {row[0] for row in await tx.rows(LIST_CREATED, found, triggers)} if keyed else set(found)
        await tx.rows(LEAVE, path, channel_of(self.address), "caller runs")
        return [Joined(run_id, run_id in created) for run_id in found]

    def _elsewhere(self) -> StateError:
        return StateError(
            f"connection: expected one to the database of the store, {self.address.shown}, with its jobs in the schema "
            f"{self.address.schema}; got one to another; connect to the same database"
        )
