"""Dead letters, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.retention import Mark
from onthedot.run import RunRecord
from onthedot.stores.letters import LAST
from onthedot.stores.showing import shown
from onthedot.stores.sqlite.history import FINISHED
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.tables import Tables
from onthedot.stores.values import most

# Read backwards from the newest end, only as far as it is asked for. The index is the box: nothing else is in it.
LIST_DEAD = FINISHED.format(
    source="history h INDEXED BY history_dead CROSS JOIN jobs j ON j.id = h.job_id",
    wanted="""h.state = 'dead' AND h.settled IS NULL AND h.ended_at >= :since AND h.ended_at <= :ended
AND (h.ended_at < :ended OR h.id < :run_id) AND j.namespace = :namespace AND (:job IS NULL OR j.name = :job)
ORDER BY h.ended_at DESC, h.id DESC LIMIT :limit""",
)

SETTLE = "UPDATE history SET settled = ? WHERE id = ? AND state = 'dead' AND settled IS NULL"


class Letters(Tables):
    """See `LettersSlice`."""

    async def list_dead(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        since: Micros = 0,
        before: Mark = LAST,
        limit: int | None = None,
    ) -> list[RunRecord]:
        values = {"job": job, "namespace": namespace, "since": since, "limit": most(limit)}
        values |= {"ended": before.ended_at, "run_id": before.run_id}
        return await self.read(lambda tx: [shown(row) for row in tx.db.execute(LIST_DEAD, values)])

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        def work(tx: Transaction) -> list[bool]:
            return [tx.db.execute(SETTLE, (word, run_id)).rowcount == 1 for run_id, word in settled]

        return await self.write(work)
