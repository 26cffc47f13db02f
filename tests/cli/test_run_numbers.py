"""What the commands take as the number of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.model.errors import UnknownRun
from onthedot.operations.open_verbs import opened
from tests.cli.conftest import Call

COMMANDS = [["show"], ["logs"], ["cancel"], ["retry"], ["artifacts", "list"], ["dead", "replay"], ["dead", "discard"]]
HUGE = "99999999999999999999999"


@pytest.mark.parametrize("number", [HUGE, "9007199254740993", "0", "9" * 5_000])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_number_that_no_run_has(call: Call, database: Path, command: list[str], number: str):
    told = call(*command, number, "--db", database)
    assert told.exit_code == 2, told.output
    assert f"expected a stored run, got {number[:100]}; 'onthedot runs" in " ".join(told.output.split())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_name_is_no_number(call: Call, database: Path, command: list[str]):
    told = call(*command, "manage", "--db", database)
    assert told.exit_code == 2, told.output
    expected = "RUN: expected the number of a run, got 'manage'; 'onthedot runs --job manage --db"
    assert expected in " ".join(told.output.split())
    assert "got 'a b'; 'onthedot runs --db" in call(*command, "a b", "--db", database).output


@pytest.mark.parametrize("number", [int(HUGE), 0, 2**63, -1])
async def test_the_library_knows_no_such_run(database: Path, number: int):
    async with opened(f"sqlite:///{database}") as there:
        verbs = there.verbs()
        assert await verbs.get_run(number) is None
        assert (await verbs.cancel(number)).kind == "unknown"
        assert await verbs.history(number) == []
        assert await verbs.logs(number) == []
        assert await verbs.discard(number) == 0
        for refused in (verbs.retry_run(number), verbs.replay(number), verbs.result(number)):
            with pytest.raises(UnknownRun, match=f"there is no run {number}: expected"):
                await refused
