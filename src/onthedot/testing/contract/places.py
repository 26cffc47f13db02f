"""Places in limits: a run that waits takes none, and a place that is not in use goes to a run that can use it."""

from __future__ import annotations

from dataclasses import replace

from onthedot.job import Limit, Overlap
from onthedot.run import ArmAnswer, Armed, Blocked, Gate, GateAsk, Lease
from onthedot.testing.contract.gates import WAIT, ask, pass_gate, reserved
from onthedot.testing.contract.register import check
from onthedot.testing.contract.workbench import Workbench


async def ask_all(bench: Workbench, *asks: tuple[Lease, list[Gate]]) -> list[ArmAnswer]:
    """Arm these in one call; each waits where it has to."""
    wanted = {lease.lease_id: GateAsk(tuple(gates), WAIT) for lease, gates in asks}
    return await bench.store.arm([replace(lease) for lease, _ in asks], gates=wanted, now=bench.now)


async def kinds(bench: Workbench, *asks: tuple[Lease, list[Gate]], one_by_one: bool = False) -> list[type[ArmAnswer]]:
    """What became of each."""
    if one_by_one:
        return [type(await ask(bench, lease, gates, WAIT)) for lease, gates in asks]
    return [type(answer) for answer in await ask_all(bench, *asks)]


@check
async def check_who_waits_at_a_limit_takes_no_place_at_another(bench: Workbench) -> None:
    """`max_running` and a limit for each tenant: one runs, its neighbour waits, and a third tenant's can run."""
    for number, one_by_one in enumerate((False, True)):
        at_most = Overlap("allow", max_running=2)
        record = await bench.define(f"job{number}", overlap=at_most, concurrency=Limit(1, key="t"))
        node, running = await bench.node(), Gate(f"running:{record.id}:", 2)
        big, small = Gate(f"limit:{record.id}:1", 1), Gate(f"limit:{record.id}:2", 1)
        for _ in range(3):
            await bench.submit(record)
        one, two, three = await reserved(bench, node, 3)
        asks = (one, [running, big]), (two, [running, big]), (three, [running, small])
        assert await kinds(bench, *asks, one_by_one=one_by_one) == [Armed, Blocked, Armed]


@check
async def check_a_run_that_is_passed_one_limit_and_finds_another_closed_gives_it_up(bench: Workbench) -> None:
    """It holds nothing while it waits: who waits behind it goes on, and it asks for both again when it is free."""
    record, node = await bench.define(overlap=Overlap("allow", max_running=1), concurrency=Limit(1)), await bench.node()
    running, limit = Gate("running:x", 1), Gate("limit:x", 1)
    other = await bench.define("other", concurrency=Limit(1))
    for job in (other, record, other, record):
        await bench.submit(job)
    one, two, three, four = await reserved(bench, node, 4)
    one = await pass_gate(bench, one, limit)
    assert await ask(bench, two, [running, limit], WAIT) == Blocked("limit:x", one.run_id)
    assert await ask(bench, three, [limit], WAIT) == Blocked("limit:x", one.run_id)
    four = await pass_gate(bench, four, running)
    assert await bench.finish(one)  # the limit passes to the second
    [two] = await reserved(bench, node, 9)
    assert await ask(bench, two, [running, limit], WAIT) == Blocked("running:x", four.run_id)
    [three] = await reserved(bench, node, 9)
    three = await pass_gate(bench, three, limit)
    assert await bench.finish(three)
    assert await bench.finish(four)
    [two] = await reserved(bench, node, 9)
    await pass_gate(bench, two, running, limit)
    assert await bench.store.recount_gates(now=bench.now) == 0


@check
async def check_a_place_that_is_not_in_use_yet_goes_to_who_has_waited_longer(bench: Workbench) -> None:
    """It passed to a run that nobody has armed: an older one, which can start now, has it. The younger one waits."""
    for number, one_by_one in enumerate((False, True)):
        record, gate = await bench.define(f"job{number}", concurrency=Limit(2)), Gate(f"limit:{number}", 2)
        node = await bench.node()
        bench.turn(9)
        running = [await bench.submit(record, due) for due in (0, 0)]
        passed = [await bench.submit(record, due) for due in (5, 6)]
        leases = {lease.run_id: lease for lease in await reserved(bench, node, 4)}
        held = [await pass_gate(bench, leases[run_id], gate) for run_id in running]
        for run_id in passed:
            assert isinstance(await ask(bench, leases[run_id], [gate], WAIT), Blocked)
        for lease in held:
            assert await bench.finish(lease)  # both are free now, and nobody has armed them
        older, newer = await bench.submit(record, 1), await bench.submit(record, 8)
        leases = {lease.run_id: lease for lease in await reserved(bench, node, 4)}
        order = [older, newer, *passed]
        asks = [(leases[run_id], [gate]) for run_id in order]
        assert await kinds(bench, *asks, one_by_one=one_by_one) == [Armed, Blocked, Armed, Blocked]
        assert await bench.store.recount_gates(now=bench.now) == 0


@check
async def check_two_limits_in_two_lines_let_somebody_start(bench: Workbench) -> None:
    """Each gate has passed to another run, and each line holds one more: the oldest starts, whoever is armed first."""
    for number, order in enumerate(((0, 1), (1, 0))):
        record = await bench.define(f"job{number}", overlap=Overlap("allow", max_running=1), concurrency=Limit(1))
        node, gates = await bench.node(), [Gate(f"running:{number}", 1), Gate(f"limit:{number}", 1)]
        first = [await bench.submit(record) for _ in range(2)]
        runs = [await bench.submit(record) for _ in range(4)]
        leases = {lease.run_id: lease for lease in await reserved(bench, node, 6)}
        held = [await pass_gate(bench, leases[run], gate) for run, gate in zip(first, gates, strict=True)]
        for place, run_id in enumerate(runs):
            assert isinstance(await ask(bench, leases[run_id], [gates[place % 2]], WAIT), Blocked)
        for lease in held:
            assert await bench.finish(lease)
        started = 0
        for _ in range(9):
            free = await reserved(bench, node, 9)
            asks = [(free[place], gates) for place in order if place < len(free)]
            answers = await kinds(bench, *asks)
            assert Armed in answers or not asks
            for (lease, _), answer in zip(asks, answers, strict=True):
                if answer is Armed:
                    [running] = [one for one in await bench.store.held(node) if one.lease_id == lease.lease_id]
                    assert await bench.finish(running)
                    started += 1
        assert started == 4
