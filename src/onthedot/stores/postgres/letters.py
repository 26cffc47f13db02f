"""Dead letters, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.retention import Mark
from onthedot.run import RunRecord
from onthedot.stores.letters import LAST
from onthedot.stores.postgres.history import FINISHED
from onthedot.stores.postgres.tables import Tables
from onthedot.stores.postgres.transaction import Transaction, plain
from onthedot.stores.showing import shown

# Read backwards from the newest end, only as far as it is asked for. The index is the box: nothing else is in it.
LIST_DEAD = FINISHED.format(
    wanted="""h.state = 'dead' AND h.settled IS NULL AND h.ended_at >= $1 AND (h.ended_at, h.id) < ($2, $3)
AND j.namespace = $4 AND ($5::text IS NULL OR j.name = $5) ORDER BY h.ended_at DESC, h.id DESC LIMIT $6"""
)

# In one order for all, so that nobody waits in a circle; who comes second finds them settled.
LOCK_DEAD = "SELECT id FROM history WHERE id = ANY($1) AND state = 'dead' AND settled IS NULL ORDER BY id FOR UPDATE"

SETTLE = "UPDATE history SET settled = $2 WHERE id = $1 AND state = 'dead' AND settled IS NULL"


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
        values = (since, before.ended_at, before.run_id, namespace, job, limit)
        return [shown(row) for row in await self.show(lambda tx: tx.rows(LIST_DEAD, *values))]

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        async def work(tx: Transaction) -> list[bool]:
            in_box = {run_id for (run_id,) in await tx.rows(LOCK_DEAD, sorted({run_id for run_id, _ in settled}))}
            said: dict[int, str | None] = {}
            answers = []
            for run_id, word in settled:
                answers.append(run_id in in_box and run_id not in said)
                said.setdefault(run_id, plain(word))
            await tx.each(SETTLE, [(run_id, word) for run_id, word in said.items() if run_id in in_box])
            return answers

        return await self.write(work, limit=self.limits.long)
