"""What a worker learns about its own speed."""

from onthedot.clock import MILLISECOND
from onthedot.node.pace import Ahead, ArmLead, Pace


def test_nothing_is_quick_until_it_was_seen():
    pace = Pace(500)
    assert (pace.quick, pace.beyond_seats(0)) == (frozenset(), 0)


def test_quick_jobs_may_be_taken_beyond_the_seats_within_the_budget():
    pace = Pace(500)
    pace.note(1, 20)
    assert (set(pace.quick), pace.beyond_seats(0)) == ({1}, 500)
    pace.note(2, 1_000)
    assert (set(pace.quick), pace.beyond_seats(0)) == ({1, 2}, 50)
    assert pace.beyond_seats(40) == 10
    assert pace.beyond_seats(60) == 0


def test_a_job_that_turns_slow_is_quick_no_longer():
    pace = Pace(500)
    pace.note(1, 20)
    for _ in range(3):
        pace.note(1, 1_000_000)
    assert pace.quick == frozenset()


def test_memory_does_not_grow_with_the_number_of_jobs():
    pace = Pace(500)
    for job_id in range(5_000):
        pace.note(job_id, 10)
    assert len(pace.quick) <= 1_001


def test_the_lead_follows_the_slowest_recent_arms_within_bounds():
    lead = ArmLead(5_000, 500_000)
    assert lead.micros == 50_000
    lead.note(100)
    assert lead.micros == 5_000
    lead.note(20_000)
    assert lead.micros == 40_000
    lead.note(9_000_000)
    assert lead.micros == 500_000
    for _ in range(100):
        lead.note(3_000)
    assert lead.micros == 6_000


# ── work held for later ──────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_is_late_holds_fewer():
    """Half as many for each batch that starts late, one at the least; one more for each that is on time."""
    ahead = Ahead(64)
    for _ in range(3):
        ahead.note(80 * MILLISECOND)
    assert ahead.most == 8
    for _ in range(10):
        ahead.note(90 * MILLISECOND)
    assert ahead.most == 1
    for _ in range(100):
        ahead.note(MILLISECOND)
    assert ahead.most == 64
