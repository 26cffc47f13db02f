"""The oracle finds mistakes that are planted in the shared SQL store.

Which walks meet a mistake changes with every draw and every statement, so this is for `make soak`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from onthedot.stores.sqlite import SqliteStore
from tests.contract.oracle_hunt import finds
from tests.contract.sql_mutants import Mutant
from tests.contract.test_sql_mutants import MUTANTS

# The move, and the check of the contract that finds the mutant, too: together they name it.
CHOSEN = [
    ("put_job", "jobs.an_equal_definition_writes_nothing"),
    ("put_job", "jobs.expecting_a_job_that_is_missing_conflicts"),
    ("put_job", "queues.an_edit_moves_waiting_runs"),
    ("schedules_of", "jobs.schedules_are_listed_by_id"),
    ("parents_of", "dependencies.an_edit_of_what_counts_begins_anew"),
    ("pause_job", "control.a_pause_skips_what_is_due_and_holds_what_was_asked_for"),
    ("move_slot", "moved.what_has_begun_is_left_alone"),
    ("due_schedules", "plan.due_schedules_say_when_there_are_more"),
    ("plan", "plan.no_windows_are_fenced_as_well"),
    ("plan", "plan.windows_are_judged_one_by_one"),
    ("plan", "plan.a_window_may_be_empty"),
    ("submit", "submit.a_run_of_another_revision_is_refused"),
    ("reserve", "reserve.earliest_due_first"),
    ("reserve", "look_again.the_earlier_of_both"),
    ("reserve", "checkpoints.who_adopts_a_lost_answer_is_given_it_too"),
    ("arm", "gates.an_armed_lease_asked_again_gives_the_same_answer"),
    ("arm", "gates.a_later_slot_does_not_take_the_gate_before_an_earlier_one"),
    ("arm", "standing.a_run_tells_which_gate_it_waits_at"),
    ("finish", "delays.expiry_opens_the_next_slot"),
    ("finish", "gates.who_waits_says_for_whom_and_only_as_long_as_it_does"),
    ("checkpoint", "checkpoints.the_newest_checkpoint_stays"),
    ("note", "checkpoints.progress_is_shown_with_the_run"),
    ("beat", "nodes.a_beat_renews"),
    ("list_queues", "queues.a_queue_is_shown_as_it_is_set_now"),
    ("assign", "queues.who_was_chosen_late_has_a_second"),
]

# The same, which walks on a few rules find (`foci.py`).
FOCUSED = [
    ("after", "finish", "dependencies.the_newest_run_counts"),
    ("after", "put_job", "dependencies.an_edit_of_what_counts_begins_anew"),
    ("deletes", "get_job", "control.a_job_that_was_edited_meanwhile_is_not_deleted"),
    ("deletes", "put_job", "control.a_deleted_name_is_free_for_a_new_job"),
    ("expiry", "expire", "slots.a_slot_that_is_due_later_expires_later"),
    ("expiry", "expire", "submit.a_submitted_run_may_expire"),
    ("gates", "arm", "gates.an_overlap_gate_is_held_through_back_off"),
    ("gates", "arm", "gates.other_gates_are_held_only_while_running"),
    ("gates", "arm", "overdue.a_slot_that_is_late_alone_is_not_counted_either"),
    ("gates", "finish", "gates.replace_ends_who_is_in_back_off_at_once"),
    ("leases", "recover", "reserve.a_lost_answer_can_be_read"),
    ("leases", "recover", "reserve.a_void_ask_gives_nothing_out"),
    ("leases", "release", "moves.moves_out_of_scheduled"),
    ("letters", "settle_dead", "letters.a_settled_run_leaves_the_box_and_stays_in_history"),
    ("letters", "settle_dead", "letters.nothing_else_can_be_settled"),
    ("moved", "cancel", "moved.a_slot_that_is_cancelled_ahead_stays_so_when_its_schedule_comes_back"),
    ("moved", "move_slot", "moved.it_is_fenced_by_the_revision"),
    ("moved", "move_slot", "moved.one_slot_is_given_one_fate"),
    ("pauses", "pause_job", "control.what_comes_while_paused_is_held_too"),
    ("pauses", "resume_job", "control.resume_plans_exactly_what_its_answer_says"),
    ("queues", "pause_queue", "gates.a_paused_queue_takes_no_place_from_others"),
    ("queues", "pause_queue", "queues.a_paused_queue_gives_nothing_out"),
    ("queues", "resume_queue", "queues.nothing_of_a_paused_queue_is_looked_for_a_place"),
    ("queues", "list_unassigned", "queues.without_a_place_nobody_takes_it"),
    ("rates", "arm", "rates.an_edit_counts_from_the_next_ask"),
    ("rates", "arm", "rates.armed_ahead_a_run_counts_from_its_due_instant"),
    ("rates", "arm", "rates.late_grants_do_not_start_together"),
    ("rates", "arm", "rates.who_is_delayed_gives_its_place_in_a_limit_to_others"),
    ("reaping", "orphans", "upkeep.orphans_are_running_under_an_ended_lease"),
    ("reaping", "reap", "nodes.no_beat_after_the_reaper"),
    ("reaping", "reap", "upkeep.a_stale_reaper_changes_nothing"),
    ("reaping", "reap", "upkeep.reaps_are_judged_one_by_one"),
    ("retention", "prune_runs", "retention.one_call_is_bounded"),
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
    assert finds(mutant, empty, 60) is not None, f"{mutant}: the oracle does not find it"


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("focus", "move", "check"), FOCUSED)
def test_walks_on_a_few_rules_find_a_mutant(focus: str, move: str, check: str, empty: Path):
    mutant = named(move, check)
    assert finds(mutant, empty, 20, focus) is not None, f"{mutant}: the oracle does not find it"
