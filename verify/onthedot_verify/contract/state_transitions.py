"""Checks of the state machine in `onthedot.model.run`: stores make each legal transition, and refuse all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from onthedot.model.errors import OnTheDotError
from onthedot.model.run import MOVES, TERMINAL, Gone, Lease, RunState
from onthedot.model.verdict import OutcomeKind, Verdict
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import LOST, SUCCESS, VERDICTS, Workbench, retry

TTL = 1000


async def scheduled(bench: Workbench) -> int:
    """A slot's run, the only one in the store. It is due at 10 and expires at 15."""
    name = bench.ids.token()
    bench.turn(0)
    record = await bench.define(name, slots=[10], late=5)
    return (await bench.slot_run(record, 10)).id


async def reserved(bench: Workbench) -> Lease:
    """The same run, reserved by a node. The reservation lapses at 11."""
    run_id = await scheduled(bench)
    [lease] = await bench.hold(await bench.node(ttl=TTL), lapse=1)
    assert lease.run_id == run_id
    return lease


async def running(bench: Workbench) -> Lease:
    return await bench.armed(await reserved(bench))


async def ended(bench: Workbench, state: RunState) -> Lease:
    """The last lease of a run that has ended in this state."""
    if state is RunState.SKIPPED:
        lease = await reserved(bench)
        bench.turn(20)
        assert await bench.expire() == [lease.run_id]
    else:
        lease = await running(bench)
        bench.turn(20)
        assert await bench.finish(lease, VERDICTS[state])
    assert await bench.state(lease.run_id) is state
    return lease


async def refused(bench: Workbench, verb: Callable[[Lease, Verdict], Awaitable[bool]], *given: Any) -> None:
    """The call answers False or raises an `OnTheDotError`, and nothing is written."""
    accepted = False
    async with bench.nothing_written():
        with suppress(OnTheDotError):
            accepted = await verb(*given)
    assert not accepted


@check
async def check_a_scheduled_run_can_be_reserved_armed_or_skipped(bench: Workbench) -> None:
    """scheduled → reserved (ahead), running (due), skipped (missed)."""
    run_id = await scheduled(bench)
    node = await bench.node()
    assert await bench.state(run_id) is RunState.SCHEDULED
    await bench.release(*(await bench.hold(node)))
    assert await bench.state(run_id) is RunState.SCHEDULED
    bench.turn(10)
    await bench.take(node)
    assert await bench.state(run_id) is RunState.RUNNING
    missed = await scheduled(bench)
    bench.turn(20)
    await bench.expire()
    assert (await bench.run(missed)).state is RunState.SKIPPED


@check
async def check_a_reserved_run_can_be_armed_released_or_skipped(bench: Workbench) -> None:
    """reserved → running (armed), scheduled (released), skipped (lapsed and missed)."""
    lease = await reserved(bench)
    assert await bench.state(lease.run_id) is RunState.RESERVED
    await bench.arm(lease)
    assert await bench.state(lease.run_id) is RunState.RUNNING
    lease = await ended(bench, RunState.SKIPPED)
    assert lease.fence == 0
    lease = await reserved(bench)
    await bench.release(lease)
    assert await bench.state(lease.run_id) is RunState.SCHEDULED


@check
async def check_a_running_run_can_take_each_legal_verdict(bench: Workbench) -> None:
    """running → each state that the table has, by `finish` and by `reap`."""
    for state in sorted(MOVES[RunState.RUNNING]):
        verdict = VERDICTS.get(state, retry(99))
        lease = await running(bench)
        assert await bench.finish(lease, verdict)
        assert await bench.state(lease.run_id) is state
        lease = await running(bench)
        bench.turn(TTL + 1)
        assert await bench.reap(lease, verdict)
        assert await bench.state(lease.run_id) is state


@check
async def check_an_illegal_verdict_is_refused(bench: Workbench) -> None:
    """A verdict with a state that the table does not allow after `running` is not recorded."""
    for state in sorted(frozenset(RunState) - MOVES[RunState.RUNNING]):
        verdict = Verdict(state, OutcomeKind.FAILED, due_at=bench.now)
        lease = await running(bench)
        await refused(bench, bench.finish, lease, verdict)
        bench.turn(TTL + 1)
        await refused(bench, bench.reap, lease, verdict)
        assert await bench.state(lease.run_id) is RunState.RUNNING


@check
async def check_only_a_running_run_takes_a_verdict(bench: Workbench) -> None:
    """Neither `finish` nor `reap` changes a run that is only reserved."""
    lease = await reserved(bench)
    bench.turn(TTL + 1)
    await refused(bench, bench.finish, lease, SUCCESS)
    await refused(bench, bench.reap, lease, LOST)
    assert await bench.state(lease.run_id) is RunState.RESERVED


@check
async def check_an_ended_run_does_not_change(bench: Workbench) -> None:
    """No call leaves a terminal state: arm, release, finish, reap, reserve or expire."""
    for state in sorted(TERMINAL):
        lease = await ended(bench, state)
        other = Verdict(RunState.SCHEDULED, OutcomeKind.TIMED_OUT, due_at=bench.now)
        async with bench.nothing_written():
            assert isinstance((await bench.arm(lease))[0], Gone)
            assert await bench.release(lease) == [False]
            assert await bench.finish(lease, other) is False
            assert await bench.take(lease.incarnation, seats=9) == []
            assert await bench.hold(lease.incarnation, ahead=9) == []
            assert await bench.expire() == []
        bench.turn(TTL + 1)
        async with bench.nothing_written():
            assert await bench.orphans() == []
            assert await bench.reap(lease, other) is False
            assert await bench.expire() == []
