"""The contract finds each mistake that is planted in the shared SQL store, on inline SQLite."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.stores.sql.store import SqlDocuments, SqlQueries, SqlStore
from onthedot.stores.sqlite import SqliteStore
from onthedot_verify import contract
from tests.contract import sql_plan_mutants, sql_run_mutants, sql_upkeep_mutants
from tests.contract.sql_mutants import DoesNotFit, Mutant, planted

MUTANTS = sql_plan_mutants.MUTANTS | sql_run_mutants.MUTANTS | sql_upkeep_mutants.MUTANTS
CHECKS = {str(check): check for check in contract.checks()}
OF_THE_DATABASE = {"about", "tell_time", "close"}  # these are no moves
IN_A_CHECK = Path(contract.__file__).parent


def moves() -> set[str]:
    """Each operation of the store that runs a move."""
    methods = [method for part in (SqlStore, SqlQueries, SqlDocuments) for method in vars(part).items()]
    return {name for name, method in methods if inspect.iscoroutinefunction(method)} - OF_THE_DATABASE


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all tables and no rows."""
    path = tmp_path_factory.mktemp("mutants") / "empty.db"

    async def create() -> None:
        await (await SqliteStore.open(path, inline=True)).close()

    asyncio.run(create())
    return path


@pytest.fixture
async def store(empty: Path, tmp_path: Path) -> AsyncIterator[SqliteStore]:
    path = tmp_path / "otd.db"
    shutil.copy(empty, path)
    store = await SqliteStore.open(path, inline=True)
    yield store
    await store.close()


def test_each_move_has_a_mutant():
    assert set(MUTANTS) == moves(), "each move of the SQL store needs a mutant in tests/contract/sql_*_mutants.py"


def test_each_mutant_exists_once():
    planted_ones = [(mutant.target, mutant.old, mutant.new) for group in MUTANTS.values() for mutant in group]
    assert len(set(planted_ones)) == len(planted_ones)


def named() -> list[object]:
    """Each check that a mutant names: those of the first mutants in all lanes, the others in `make test`."""
    first = {group[0].check for group in MUTANTS.values()}
    names = sorted({mutant.check for group in MUTANTS.values() for mutant in group})
    return [pytest.param(name, marks=[] if name in first else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("name", named())
async def test_a_check_passes_without_a_mutant(name: str, store: SqliteStore):
    await CHECKS[name](contract.Workbench(store))


def listed() -> list[object]:
    """Each mutant with its move: the first of a move in all lanes, the others in `make test`."""
    return [
        pytest.param(mutant, id=f"{move}-{mutant.target}-{number}", marks=[pytest.mark.slow] if number else [])
        for move, group in MUTANTS.items()
        for number, mutant in enumerate(group)
    ]


@pytest.mark.parametrize("mutant", listed())
async def test_the_contract_finds_a_mutant(mutant: Mutant, store: SqliteStore):
    with planted(mutant):
        error = await failure(mutant, store)
    assert error is not None, f"{mutant}: expected {mutant.check} to find it"
    if not is_expectation(error):
        raise AssertionError(f"{mutant}: expected an assertion of {mutant.check}, got an error") from error


async def failure(mutant: Mutant, store: SqliteStore) -> Exception | None:
    try:
        await CHECKS[mutant.check](contract.Workbench(store))
    except Exception as error:  # noqa: BLE001 - the caller judges the error
        return error
    return None


def is_expectation(error: Exception) -> bool:
    """Whether the error tells an expectation of a check: an assertion, or a wrong number of values to unpack."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not isinstance(error, AssertionError | ValueError):
        return False
    return Path(last.tb_frame.f_code.co_filename).is_relative_to(IN_A_CHECK)


@pytest.mark.parametrize("target", ["reserve.GONE", "prune.LIST_ENDED.9", "reserve.LOOK_AGAIN"])
def test_a_mutant_of_an_unknown_target_does_not_fit(target: str):
    with pytest.raises(DoesNotFit), planted(Mutant(target, "a", "b", "")):
        pass


@pytest.mark.parametrize("target", ["reserve.RELEASE", "reserve.release"])
def test_a_mutant_of_an_unknown_text_does_not_fit(target: str):
    with pytest.raises(DoesNotFit, match="plant the same mistake"), planted(Mutant(target, "no such text", "", "")):
        pass


async def test_a_mutant_with_invalid_sql_is_an_error(store: SqliteStore):
    broken = Mutant("reserve.RELEASE", "UPDATE runs", "UPDATE", "arm.a_released_run_is_free_at_once")
    with planted(broken):
        error = await failure(broken, store)
    assert error is not None
    assert not is_expectation(error)


async def test_a_mutant_is_removed_again(store: SqliteStore):
    for group in MUTANTS.values():
        with planted(group[0]):
            pass
    await CHECKS["arm.release_needs_the_current_reservation"](contract.Workbench(store))
