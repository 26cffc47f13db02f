"""The output of runs is moved from the spool to the output store, and is deleted after its run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from onthedot.clock import SECOND, Micros
from onthedot.model.errors import OutputUnavailable
from onthedot.model.events import Event, Events, OutputNotKept, OutputsLost, OutputsPruned
from onthedot.model.retention import HOUR
from onthedot.node.output_upkeep import (
    BATCH,
    ENOUGH,
    LOOK_EVERY,
    MEASURE_EVERY,
    PRUNE_EVERY,
    OutputKeeper,
    OutputPruner,
)
from onthedot.output.output_store import Index, Name, OutputStore
from onthedot.output.spool import Spool


@dataclass(frozen=True)
class Ended:
    """The fields of an attempt that the keeper reads, and of a run that the pruner reads."""

    id: int
    attempt: int = 1
    lease_id: str = "a-1"


@dataclass
class Known:
    """A store that has these runs."""

    runs: list[Ended] = field(default_factory=list)
    asked: int = 0

    @property
    def queries(self) -> Known:
        return self

    async def list_attempts(self, run_id: int) -> list[Ended]:
        return [run for run in self.runs if run.id == run_id]

    async def get_run(self, run_id: int) -> Ended | None:
        return next((run for run in self.runs if run.id == run_id), None)

    async def get_runs(self, run_ids: list[int]) -> list[Ended]:
        self.asked += 1
        return [run for run in self.runs if run.id in run_ids]


class Away(OutputStore):
    """An output store that is unavailable."""

    async def keep(self, *_: object) -> Index:
        raise OutputUnavailable("s3://logs cannot be used: no route")


class Led:
    """Leadership that holds a term."""

    term: object | None = object()


def wall() -> Micros:
    return time.time_ns() // 1_000


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


@pytest.fixture
def outputs(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "output")


def keeper(spool: Spool, outputs: OutputStore, known: Known, heard: list[Event]) -> OutputKeeper:
    return OutputKeeper(known, spool, outputs, Events([heard.append]), wall)  # type: ignore[arg-type]


def test_the_output_of_ended_attempts_moves_from_the_spool_to_the_store(spool: Spool, outputs: OutputStore):
    async def check() -> None:
        names = [Name(run_id, 1, "a-1") for run_id in range(BATCH + 1)]
        for name in names:
            spool.log_of(name).write_text("said")
            spool.hand_in(name)
        heard: list[Event] = []
        service = keeper(spool, outputs, Known(), heard)
        assert await service.tick(0) == 0
        assert await service.tick(0) == LOOK_EVERY
        assert all([await outputs.index(name) is not None for name in names])
        assert (spool.waiting(9), heard) == ([], [])

    asyncio.run(check())


def test_no_folder_is_made_if_no_attempt_has_output(spool: Spool, outputs: OutputStore):
    service = keeper(spool, outputs, Known(), [])
    assert asyncio.run(service.tick(0)) == LOOK_EVERY
    pruner = OutputPruner(Known(), Led(), outputs, Events(), wall)  # type: ignore[arg-type]
    assert asyncio.run(pruner.tick(0)) == PRUNE_EVERY
    assert not spool.is_used
    assert not Path(str(outputs)).exists()


def test_an_unavailable_output_store_is_reported_and_retried_with_backoff(spool: Spool, outputs: OutputStore):
    async def check() -> None:
        spool.log_of(Name(41, 2, "a-1")).write_text("said")
        spool.hand_in(Name(41, 2, "a-1"))
        heard: list[Event] = []
        service = keeper(spool, Away(None), Known(), heard)
        pauses = [await service.tick(0) for _ in range(4)]
        assert pauses == [1 * SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]
        assert heard[0] == OutputNotKept(41, 2, "s3://logs cannot be used: no route", 1 * SECOND)
        service._outputs = outputs
        assert await service.tick(0) == LOOK_EVERY
        assert await outputs.index(Name(41, 2, "a-1")) is not None

    asyncio.run(check())


def test_a_full_spool_drops_the_oldest_output_while_the_store_is_unavailable(spool: Spool, outputs: OutputStore):
    """Each output takes one page, plus its folder. There are three, and room for two."""

    async def check() -> None:
        names = [Name(number, 1, "a-1") for number in (3, 1, 2)]  # in the order of their ends
        for at, name in enumerate(names):
            spool.log_of(name).write_bytes(b"x" * 4_094)
            spool.hand_in(name)
            os.utime(spool._folder(name), (at, at))
        heard: list[Event] = []
        service = OutputKeeper(
            Known(), spool, Away(None), Events([heard.append]), wall, most=2 * 8_192  # type: ignore[arg-type]
        )  # fmt: skip
        await service.tick(0)
        assert heard[1:] == [OutputsLost(1, 8_192)]
        assert {ended.name for ended in spool.waiting(9)} == {names[1], names[2]}
        spool.log_of(names[0]).write_bytes(b"x" * 4_094)
        spool.hand_in(names[0])
        await service.tick(1)  # too early to measure again
        assert len(spool.waiting(9)) == 3
        await service.tick(MEASURE_EVERY)
        assert len(spool.waiting(9)) == 2
        service._outputs = outputs
        await service.tick(MEASURE_EVERY + 1)
        assert spool.waiting(9) == []
        assert len([event for event in heard if isinstance(event, OutputsLost)]) == 2

    asyncio.run(check())


def test_output_that_does_not_fit_is_kept_if_the_store_is_available(spool: Spool, outputs: OutputStore):
    async def check() -> None:
        spool.log_of(Name(41, 2, "a-1")).write_text("said")
        spool.hand_in(Name(41, 2, "a-1"))
        heard: list[Event] = []
        events = Events([heard.append])
        await OutputKeeper(Known(), spool, outputs, events, wall, most=1).tick(0)  # type: ignore[arg-type]
        assert heard == []
        assert await outputs.index(Name(41, 2, "a-1")) is not None

    asyncio.run(check())


def test_the_output_of_a_killed_process_is_kept_once_the_store_knows_its_end(spool: Spool, outputs: OutputStore):
    async def check() -> None:
        ended, running, fresh = Name(1, 1, "a-1"), Name(2, 1, "a-1"), Name(3, 1, "a-1")
        for name in (ended, running, fresh):
            spool.log_of(name).write_text("said")
        for name in (ended, running):
            silent = time.time() - 3_600
            os.utime(spool.log_of(name), (silent, silent))
        known = Known([Ended(1), Ended(2, lease_id="another"), Ended(3)])
        await keeper(spool, outputs, known, []).tick(0)
        assert await outputs.index(ended) is not None
        assert {name for name, _ in spool.left(9, before=2**62)} == {running, fresh}

    asyncio.run(check())


def test_output_without_a_run_is_kept_after_a_day(spool: Spool, outputs: OutputStore):
    async def check() -> None:
        old, recent = Name(1, 1, "a-1"), Name(2, 1, "a-1")
        for name, hours in ((old, 25), (recent, 23)):
            spool.log_of(name).write_text("said")
            silent = time.time() - hours * 3_600
            os.utime(spool.log_of(name), (silent, silent))
        await keeper(spool, outputs, Known(), []).tick(0)
        assert await outputs.index(old) is not None
        assert [name for name, _ in spool.left(9, before=2**62)] == [recent]

    asyncio.run(check())


# ── retention ────────────────────────────────────────────────────────────────────────────────────────────────────


def pruner(outputs: OutputStore, known: Known, heard: list[Event], clock: Callable[[], Micros]) -> OutputPruner:
    return OutputPruner(known, Led(), outputs, Events([heard.append]), clock)  # type: ignore[arg-type]


async def keep(outputs: OutputStore, tmp_path: Path, *run_ids: int) -> None:
    log = tmp_path / "log"
    log.touch()
    for run_id in run_ids:
        await outputs.keep(Name(run_id, 1, "a-1"), log)


async def kept(outputs: OutputStore) -> set[int]:
    return {found.run_id for group in await outputs.groups() for found in await outputs.of_group(group)}


def test_output_is_deleted_an_hour_after_it_was_kept_if_its_run_is_deleted(outputs: OutputStore, tmp_path: Path):
    async def check() -> None:
        await keep(outputs, tmp_path, 1, 2, 1_001)
        heard: list[Event] = []
        now = wall()
        early = pruner(outputs, Known([Ended(2)]), heard, lambda: now)
        while await early.tick(now) != PRUNE_EVERY:
            pass
        assert await kept(outputs) == {1, 2, 1_001}
        later = pruner(outputs, Known([Ended(2)]), heard, lambda: now + 2 * HOUR)
        while await later.tick(now) != PRUNE_EVERY:
            pass
        assert await kept(outputs) == {2}
        assert heard == [OutputsPruned(1), OutputsPruned(1)]

    asyncio.run(check())


def test_a_round_ends_early_if_nothing_is_deleted_except_once_a_day(outputs: OutputStore, tmp_path: Path):
    async def check() -> None:
        run_ids = [group * 1_000 for group in range(ENOUGH + 4)]
        await keep(outputs, tmp_path, *run_ids)
        known, now = Known([Ended(run_id) for run_id in run_ids]), wall()
        service = pruner(outputs, known, [], lambda: now + 2 * HOUR)
        while await service.tick(now) != PRUNE_EVERY:
            pass
        assert known.asked == len(run_ids)
        known.asked = 0
        while await service.tick(now + HOUR) != PRUNE_EVERY:
            pass
        assert known.asked == ENOUGH

    asyncio.run(check())


def test_only_the_leader_prunes(outputs: OutputStore, tmp_path: Path):
    async def check() -> None:
        await keep(outputs, tmp_path, 1)
        led = Led()
        led.term = None
        pruner = OutputPruner(Known(), led, outputs, Events(), lambda: wall() + 2 * HOUR)  # type: ignore[arg-type]
        assert await pruner.tick(0) == PRUNE_EVERY // 60
        assert await kept(outputs) == {1}

    asyncio.run(check())
