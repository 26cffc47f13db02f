"""The store contract: what every driver promises, as checks that any driver can run.

A driver's test file is this, with its own way to open a store that holds nothing yet:

    @pytest.mark.parametrize("check", contract.checks(), ids=str)
    async def test_contract(check):
        store = MemoryStore()
        await check(contract.Workbench(store))
        await store.close()

Each check tests a promise of a docstring in `onthedot.stores.protocol`, in one file per slice. There is nothing to
skip: where drivers may differ, they declare it in `Capabilities`, and the check asks. The checks speak in
`assert`: do not run them under `python -O`, and let pytest explain them by putting
`pytest.register_assert_rewrite("onthedot_verify.contract")` into the conftest.py beside the test.
"""

from onthedot_verify.contract import (
    arm,
    checkpoints,
    control,
    delays,
    dependencies,
    documents,
    edits,
    finding,
    finish,
    gates,
    hints,
    history,
    jobs,
    leftovers,
    letters,
    look_again,
    moved,
    moves,
    nodes,
    overdue,
    places,
    plan,
    queues,
    rates,
    reserve,
    retention,
    shards,
    slots,
    standing,
    submit,
    terms,
    transactions,
    upkeep,
)
from onthedot_verify.contract.capabilities import Capabilities, Effects
from onthedot_verify.contract.register import Check, registered
from onthedot_verify.contract.workbench import Workbench

_SLICES = (
    jobs,
    edits,
    control,
    delays,
    plan,
    slots,
    moved,
    submit,
    reserve,
    look_again,
    queues,
    arm,
    gates,
    places,
    overdue,
    rates,
    finish,
    transactions,
    dependencies,
    moves,
    checkpoints,
    nodes,
    terms,
    shards,
    upkeep,
    retention,
    leftovers,
    history,
    finding,
    letters,
    standing,
    hints,
    documents,
)


def checks() -> list[Check]:
    """Every check of the contract, in the order of a run's life.

    A driver that is not ready yet sees what it keeps so far, slice by slice:

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
