"""What there is for whoever asks: one run, several, and where to look for more."""

from __future__ import annotations

from collections.abc import Iterable

from onthedot.access.principal import Principal
from onthedot.errors import UnknownRun
from onthedot.run import RunRecord
from onthedot.stores.base import Store

HIGHEST = 2**53
"""No store gives a run a higher number."""


async def seen_run(store: Store, who: Principal, run_id: int) -> RunRecord:
    """A run, if it is there for whoever asks; else `UnknownRun`, in the same words as for one that never was."""
    run = await store.get_run(run_id)
    if run is None or not who.sees(run.namespace, run.owner):
        raise UnknownRun(f"there is no run {run_id}: expected one that was submitted and not forgotten since")
    return run


async def seen_runs(store: Store, who: Principal, run_ids: Iterable[int]) -> list[RunRecord]:
    """The same of several, by id: all of them, or `UnknownRun` that names the first that is not there."""
    wanted = sorted(set(run_ids))
    found = {run.id: run for run in await store.get_runs(wanted)}
    for run_id in wanted:
        run = found.get(run_id)
        if run is None or not who.sees(run.namespace, run.owner):
            raise UnknownRun(f"there is no run {run_id}: expected one that was submitted and not forgotten since")
    return list(found.values())


def namespaces_for(who: Principal, namespace: str | None) -> tuple[str, ...] | None:
    """Where to look: in the namespace that is asked for, or in all there are for this one (None: in every one)."""
    if namespace is None:
        return who.namespaces or None
    return (namespace,) if who.sees(namespace, who.owner) else ()


def owner_for(who: Principal, owner: str | None) -> tuple[str | None, bool]:
    """Whose things to look for, and whether there can be any."""
    if who.only_owner is None:
        return owner, True
    return who.only_owner, owner in (None, who.only_owner)
