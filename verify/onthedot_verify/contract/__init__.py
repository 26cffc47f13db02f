"""The store contract: checks of each promise of the store protocol, which any driver can run.

A driver's test file is this, with its own way to open an empty store:

    @pytest.mark.parametrize("check", contract.checks(), ids=str)
    async def test_contract(check):
        store = MemoryStore()
        await check(contract.Workbench(store))
        await store.close()

Each check tests a promise of a docstring in `onthedot.stores.protocol`. Each module here is one slice of the contract.
No check needs to be skipped: where drivers may differ, they declare it in `Capabilities`, and the check reads that. The
checks use `assert`: do not run them under `python -O`. For readable failures, put
`pytest.register_assert_rewrite("onthedot_verify.contract")` into the conftest.py beside the test.
"""

from onthedot_verify.contract import (
    arm,
    checkpoints,
    cleanup,
    control,
    dead_letters,
    dependencies,
    documents,
    edits,
    finish,
    fixed_delays,
    gates,
    hints,
    history,
    jobs,
    limit_places,
    moved_slots,
    next_poll,
    nodes,
    overdue,
    plan,
    queries,
    queues,
    rates,
    reserve,
    retention,
    shards,
    slots,
    state_transitions,
    status,
    submit,
    terms,
    transactions,
    upkeep,
)
from onthedot_verify.contract.capabilities import Capabilities, Effects
from onthedot_verify.contract.registry import Check, registered
from onthedot_verify.contract.workbench import Workbench

_SLICES = (
    jobs,
    edits,
    control,
    fixed_delays,
    plan,
    slots,
    moved_slots,
    submit,
    reserve,
    next_poll,
    queues,
    arm,
    gates,
    limit_places,
    overdue,
    rates,
    finish,
    transactions,
    dependencies,
    state_transitions,
    checkpoints,
    nodes,
    terms,
    shards,
    upkeep,
    retention,
    cleanup,
    history,
    queries,
    dead_letters,
    status,
    hints,
    documents,
)


def checks() -> list[Check]:
    """All checks of the contract, in the order of a run's life.

    A driver that is not ready yet can run them slice by slice:

    >>> from onthedot.stores.memory import MemoryStore
    >>> from onthedot_verify.contract import Workbench, checks
    >>> class WithoutTerms(MemoryStore):
    ...     async def campaign(self, *args, **options):
    ...         return None
    >>> async def keeps(check):
    ...     try:
    ...         await check(Workbench(WithoutTerms()))
    ...     except AssertionError:
    ...         return False
    ...     return True
    >>> [await keeps(check) for check in checks() if check.slice == "submit"].count(False)
    0
    >>> [await keeps(check) for check in checks() if check.slice == "terms"].count(True)
    0
    """
    order = [module.__name__.rpartition(".")[2] for module in _SLICES]
    return sorted(registered, key=lambda one: order.index(one.slice))


__all__ = ["Capabilities", "Check", "Effects", "Workbench", "checks"]
