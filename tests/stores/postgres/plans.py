"""Reads the plan of a statement of the store: the generic plan that the server keeps for a session."""

from __future__ import annotations

import json
from typing import Any

from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.transaction import Transaction

PlanNode = dict[str, Any]


async def plan_of(store: PostgresStore, statement: str) -> list[PlanNode]:
    """Returns all nodes of the plan, from a connection of the store with its settings. The plan does not depend on
    values. `EXPLAIN` with values would show a plan made for these values."""

    async def explain(tx: Transaction) -> str:
        await tx.db.execute(f"PREPARE planned AS {statement}")
        count = await tx.db.fetchval(
            "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'planned'"
        )
        values = f"({', '.join(['NULL'] * count)})" if count else ""
        text = await tx.db.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}")
        await tx.db.execute("DEALLOCATE planned")
        return str(text)

    return _nodes(json.loads(await store.database.look(explain))[0]["Plan"])


def _nodes(plan: PlanNode) -> list[PlanNode]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _nodes(child))]
