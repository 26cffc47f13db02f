"""`onthedot retry`: a new run that goes on where another has failed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from tests.cli.conftest import Call
from tests.runners.program.plain_guard import guard

pytestmark = pytest.mark.slow

__all__ = ["guard"]  # a fixture


@pytest.fixture
def failed(tmp_path: Path, guard: object) -> Path:
    """A store in which run 1 has failed in its second step."""
    file = tmp_path / "it.db"
    sched = otd.Scheduler(f"sqlite:///{file}", settings=otd.Settings(spool=str(tmp_path / "spool"), kill_after=SECOND))
    sched.steps("it", [otd.Step(name="a", script="true"), otd.Step(name="b", script="exit 3")])

    async def fail() -> None:
        async with sched:
            with pytest.raises(otd.RunFailed, match="step 'b': exit code 3"):
                await (await sched.submit("it")).result(timeout="20s")

    asyncio.run(fail())
    return file


def test_it_goes_on_at_the_step_that_failed(call: Call, failed: Path):
    assert call("retry", 1, "--db", failed).output == "run 2 of it is stored; it goes on from run 1\n"
    run = json.loads(call("retry", 1, "--from-step", "a", "--db", failed, "--json").output)
    assert (run["run_id"], run["trigger"][:10]) == (3, "rerun:1:0:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["9"], "RUN: expected a stored run, got 9"),
        (["1", "--from-step", "c"], "from_step: expected a step of job 'it', got 'c'"),
    ],
)
def test_what_is_refused(call: Call, failed: Path, arguments: list[str], said: str):
    result = call("retry", *arguments, "--db", failed)
    assert result.exit_code == 2
    assert said in result.output


def test_a_run_that_has_not_ended_is_refused(call: Call, failed: Path):
    call("retry", 1, "--db", failed)
    result = call("retry", 2, "--db", failed)
    assert result.exit_code == 2
    assert "RUN: run 2: expected one that has ended, it is scheduled" in result.output
