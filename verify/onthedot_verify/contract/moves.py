"""The table of moves in `onthedot.model.run`: the store makes every legal one that a verb asks for, and no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from onthedot.model.errors import OnTheDotError
from onthedot.model.run import MOVES, TERMINAL, Gone, Lease, RunState
from onthedot.model.verdict import OutcomeKind, Verdict
from onthedot_verify.contract.register import check
from onthedot_verify.contract.workbench import LOST, SUCCESS, VERDICTS, Workbench, retry

TTL = 1000


async def scheduled(bench: Workbench) -> int:
    """A slot run of a new job, due at 10, to be missed from 15 on; alone in the store."""
    name = bench.ids.token()
    bench.turn(0)
    record = await bench.define(name, slots=[10], late=5)
    return (await bench.slot_run(record, 10)).id


async def reserved(bench: Workbench) -> Lease:
    """The same, reserved by a node; the reservation lapses at 11."""
    run_id = await scheduled(bench)
    [lease] = await bench.hold(await bench.node(ttl=TTL), lapse=1)
    assert lease.run_id == run_id
    return lease


async def running(bench: Workbench) -> Lease:
    return await bench.armed(await reserved(bench))


async def ended(bench: Workbench, state: RunState) -> Lease:
    """A run that has ended in this state, and the lease that was its last."""
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
    """The verb answers False or raises one of our errors, and nothing is written."""
    accepted = False
    async with bench.nothing_written():
        with suppress(OnTheDotError):
            accepted = await verb(*given)
    assert not accepted


@check
async def check_moves_out_of_scheduled(bench: Workbench) -> None:
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
async def check_moves_out_of_reserved(bench: Workbench) -> None:
    """reserved → running (armed), scheduled (given back), skipped (lapsed and missed)."""
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
async def check_moves_out_of_running(bench: Workbench) -> None:
    """running → every state that the table names, by `finish` and by `reap` alike."""
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
async def check_illegal_moves_out_of_running_are_refused(bench: Workbench) -> None:
    """A verdict whose state the table does not allow after `running` is refused, not recorded."""
    for state in sorted(frozenset(RunState) - MOVES[RunState.RUNNING]):
        verdict = Verdict(state, OutcomeKind.FAILED, due_at=bench.now)
        lease = await running(bench)
        await refused(bench, bench.finish, lease, verdict)
        bench.turn(TTL + 1)
        await refused(bench, bench.reap, lease, verdict)
        assert await bench.state(lease.run_id) is RunState.RUNNING


@check
async def check_only_a_running_run_takes_a_verdict(bench: Workbench) -> None:
    """Neither `finish` nor `reap` moves a run that is only reserved."""
    lease = await reserved(bench)
    bench.turn(TTL + 1)
    await refused(bench, bench.finish, lease, SUCCESS)
    await refused(bench, bench.reap, lease, LOST)
    assert await bench.state(lease.run_id) is RunState.RESERVED


@check
async def check_terminal_states_absorb(bench: Workbench) -> None:
    """Nothing leaves a terminal state: not by arm, release, finish, reap, reserve or expiry."""
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
