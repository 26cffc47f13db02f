"""Which of the due runs a worker takes."""

from __future__ import annotations

from onthedot.ids import LeaseIds
from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import Checkpoint
from onthedot.stores.sql.reserve import Candidate, choose_due, is_served, lease_of
from onthedot.stores.values import ReserveRequest

QUICK, SLOW = 1, 2


def ask(seats: int, extra: int = 0, ids: int = 8) -> ReserveRequest:
    return ReserveRequest(
        "one", LeaseIds("ids", ids), seats, extra=extra, quick=frozenset({QUICK}), labels=frozenset({"gpu"})
    )


def row(run_id: int, job_id: int = SLOW, *, gated: bool = False) -> Candidate:
    return Candidate(
        0, run_id, job_id, 3, "active", "submit:1", 10, 20, "{}", 4, 1, 2, 5, "web-1", "mail", 1, None, gated,
    )  # fmt: skip


def taken(wanted: ReserveRequest, *rows: Candidate) -> tuple[list[int], bool]:
    chosen, more = choose_due(iter(rows), wanted)
    return [one.run_id for one in chosen], more


def test_a_worker_takes_one_run_per_seat():
    assert taken(ask(2)) == ([], False)
    assert taken(ask(2), row(1), row(2)) == ([1, 2], False)
    assert taken(ask(2), row(1), row(2), row(3)) == ([1, 2], True)


def test_quick_runs_are_taken_in_addition_from_anywhere_in_the_queue():
    rows = [row(1), row(2), row(3, QUICK), row(4), row(5, QUICK), row(6, QUICK)]
    assert taken(ask(1, extra=2), *rows) == ([1, 3, 5], True)
    assert taken(ask(1, extra=2), row(1), row(3, QUICK)) == ([1, 3], False)


def test_a_quick_run_with_gates_is_not_taken_in_addition():
    assert taken(ask(1, extra=2), row(1), row(2, QUICK, gated=True)) == ([1], True)


def test_the_search_in_a_backlog_is_limited():
    backlog = [row(number) for number in range(10)]
    assert taken(ask(1, extra=1, ids=2), *backlog, row(99, QUICK)) == ([0], True)


def test_a_lease_has_the_current_data_of_the_run_and_its_next_attempt():
    record = JobRecord(SLOW, 3, Job(name="job", task=Call(handler="work")), JobState.ACTIVE, 0, 0)
    lease = lease_of(row(7), "a", record, ask(1), 30, Checkpoint(3, "{}"))
    assert (lease.lease_id, lease.run_id, lease.record, lease.trigger) == ("a", 7, record, "submit:1")
    assert (lease.slot_at, lease.due_at, lease.args, lease.created_at, lease.reserved_at) == (10, 20, "{}", 5, 30)
    assert (lease.attempt, lease.failures, lease.recoveries, lease.incarnation) == (5, 1, 2, "one")
    assert (lease.fence, lease.armed_at, lease.target, lease.queue) == (0, 0, "web-1", "mail")
    assert lease.checkpoint == Checkpoint(3, "{}")


def test_a_route_needs_its_labels_and_an_active_queue():
    assert is_served("mail", ask(1), [])
    assert is_served("mail\tgpu", ask(1), ["other"])
    assert not is_served("mail\tgpu,region=eu", ask(1), [])
    assert not is_served("mail", ask(1), ["mail"])
