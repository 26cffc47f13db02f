"""What a worker holds for later."""

from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import Lease
from onthedot.node.reservations import Reservations

RECORD = JobRecord(1, 1, Job(name="j", task=Call(handler="j")), JobState.ACTIVE, 0, 0)


def lease(run_id: int, due_at: int, lease_id: str = "") -> Lease:
    return Lease(lease_id or f"lease-{run_id}", run_id, RECORD, "submit:x", due_at, due_at, None, 1, 0, 0, "inc", 0, 0)


def test_earliest_first_and_no_more_than_asked_for():
    held = Reservations()
    held.add([lease(1, 30), lease(2, 10), lease(3, 20)])
    assert held.next_due() == 10
    assert [one.run_id for one in held.take(25, 9)] == [2, 3]
    assert [one.run_id for one in held.take(99, 0)] == []
    assert [one.run_id for one in held.take_all()] == [1]
    assert held.next_due() is None


def test_the_same_run_may_be_held_under_two_leases():
    """A reservation that lapsed and was taken again by the same worker: the old lease is still in the heap."""
    held = Reservations()
    held.add([lease(1, 10, "old"), lease(1, 10, "new"), lease(1, 10, "newest")])
    assert sorted(held.lease_ids()) == ["new", "newest", "old"]
    assert len(held.take(10, 9)) == 3


def test_one_can_be_put_off():
    held = Reservations()
    held.add([lease(1, 10)])
    [first] = held.take(10, 1)
    held.add_at(15, first)
    assert (held.next_due(), held.take(14, 9)) == (15, [])
    assert held.take(15, 9) == [first]
