"""The machine and the oracle find mistakes that are planted in the shared SQL store.

Each change of a draw or a statement changes the walks that meet a mistake. So this is for `make soak`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from onthedot.stores.sqlite import SqliteStore
from tests.contract.oracle_hunt import finds
from tests.contract.sql_mutants import Mutant
from tests.contract.test_sql_mutants import MUTANTS

# A mutant is named by its move and by the check of the contract that finds it.
CHOSEN = [
    ("put_job", "jobs.an_equal_definition_writes_nothing"),
    ("put_job", "jobs.an_edit_of_a_missing_job_conflicts"),
    ("put_job", "queues.an_edit_moves_waiting_runs_to_the_new_queue"),
    ("schedules_of", "jobs.schedules_are_listed_by_id"),
    ("parents_of", "dependencies.an_edit_of_what_counts_clears_the_set"),
    ("pause_job", "control.a_pause_skips_due_slots_and_holds_other_runs"),
    ("move_slot", "moved_slots.a_started_slot_cannot_be_moved"),
    ("due_schedules", "plan.due_schedules_are_limited"),
    ("plan", "plan.an_empty_plan_needs_the_term"),
    ("plan", "plan.each_window_has_its_own_answer"),
    ("plan", "plan.a_window_may_be_empty"),
    ("submit", "submit.a_submit_may_name_the_revision_that_was_read"),
    ("reserve", "reserve.the_earliest_due_run_comes_first"),
    ("reserve", "next_poll.the_earlier_of_lapse_and_due_instant_counts"),
    ("reserve", "checkpoints.recover_and_orphans_carry_the_checkpoint"),
    ("arm", "gates.a_repeated_arm_through_gates_gives_the_same_answer"),
    ("arm", "gates.a_later_slot_does_not_take_the_gate_before_an_earlier_one"),
    ("arm", "status.why_waiting_names_the_gate_and_its_holders"),
    ("finish", "fixed_delays.an_expired_run_sets_the_next_slot"),
    ("finish", "gates.a_waiting_run_names_the_run_it_waits_for"),
    ("checkpoint", "checkpoints.the_newest_checkpoint_stays"),
    ("note", "checkpoints.progress_is_shown_with_the_run"),
    ("beat", "nodes.a_beat_renews_the_lease"),
    ("list_queues", "queues.a_queue_shows_its_current_pause"),
    ("assign", "queues.a_late_placement_lasts_a_second"),
]

# The same for walks with only a few rules (`foci.py`).
FOCUSED = [
    ("after", "finish", "dependencies.the_newest_run_counts"),
    ("after", "put_job", "dependencies.an_edit_of_what_counts_clears_the_set"),
    ("deletes", "get_job", "control.a_delete_needs_the_revision_that_was_read"),
    ("deletes", "put_job", "control.a_deleted_name_is_free_for_a_new_job"),
    ("expiry", "expire", "slots.a_slot_that_is_due_later_expires_later"),
    ("expiry", "expire", "submit.a_submitted_run_may_expire"),
    ("gates", "arm", "gates.an_overlap_gate_is_held_through_back_off"),
    ("gates", "arm", "gates.a_limit_is_held_only_while_running"),
    ("gates", "arm", "overdue.a_single_late_slot_does_not_count_for_max_waiting"),
    ("gates", "finish", "gates.replace_cancels_a_run_in_back_off_at_once"),
    ("leases", "recover", "reserve.recover_returns_the_leases_of_a_lost_answer"),
    ("leases", "recover", "reserve.a_voided_reserve_gives_nothing_out"),
    ("leases", "release", "state_transitions.a_scheduled_run_can_be_reserved_armed_or_skipped"),
    ("letters", "settle_dead", "dead_letters.a_settled_run_stays_in_history"),
    ("letters", "settle_dead", "dead_letters.only_a_dead_letter_can_be_settled"),
    ("moved", "cancel", "moved_slots.a_recorded_exception_survives_a_dropped_schedule"),
    ("moved", "move_slot", "moved_slots.a_move_needs_the_revision_that_was_read"),
    ("moved", "move_slot", "moved_slots.a_slot_gets_only_one_exception"),
    ("pauses", "pause_job", "control.runs_that_come_during_a_pause_are_held"),
    ("pauses", "resume_job", "control.resume_plans_exactly_what_its_answer_says"),
    ("queues", "pause_queue", "gates.a_paused_queue_leaves_its_gates"),
    ("queues", "pause_queue", "queues.a_paused_queue_gives_out_no_run"),
    ("queues", "resume_queue", "queues.runs_of_a_paused_queue_are_not_placed"),
    ("queues", "list_unassigned", "queues.an_unplaced_run_is_not_reserved"),
    ("rates", "arm", "rates.an_edited_rate_counts_from_the_next_ask"),
    ("rates", "arm", "rates.a_run_armed_ahead_counts_from_its_due_instant"),
    ("rates", "arm", "rates.expired_grants_do_not_start_together"),
    ("rates", "arm", "rates.a_delayed_run_frees_its_limit"),
    ("reaping", "orphans", "upkeep.orphans_are_running_under_an_ended_lease"),
    ("reaping", "reap", "nodes.the_reaper_ends_an_incarnation"),
    ("reaping", "reap", "upkeep.a_stale_reap_changes_nothing"),
    ("reaping", "reap", "upkeep.each_reap_has_its_own_answer"),
    ("retention", "prune_runs", "retention.one_call_looks_at_a_limited_number_of_runs"),
]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all tables and no rows."""
    path = tmp_path_factory.mktemp("oracle") / "empty.db"

    async def create() -> None:
        await (await SqliteStore.open(path, inline=True)).close()

    asyncio.run(create())
    return path


def named(move: str, check: str) -> Mutant:
    """The first mutant of a move that this check finds."""
    return next(mutant for mutant in MUTANTS[move] if mutant.check == check)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("move", "check"), CHOSEN)
def test_the_oracle_finds_a_mutant(move: str, check: str, empty: Path):
    mutant = named(move, check)
    assert finds(mutant, empty, 60) is not None, f"{mutant}: expected the oracle to find it"


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("focus", "move", "check"), FOCUSED)
def test_the_oracle_finds_a_mutant_on_a_few_rules(focus: str, move: str, check: str, empty: Path):
    mutant = named(move, check)
    assert finds(mutant, empty, 20, focus) is not None, f"{mutant}: expected the oracle to find it"
