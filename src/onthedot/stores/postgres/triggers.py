"""How a slot's run is told from others in SQL. The schema has it spelt out, and a test holds that to be the same."""

from __future__ import annotations

from onthedot.run import SLOT_PREFIX

IS_NO_SLOT = f"trigger NOT LIKE '{SLOT_PREFIX}%'"
"""The very words of the index `history_submitted`, which serves only who asks in them."""

_WORDS = {
    "is_slot": f"trigger LIKE '{SLOT_PREFIX}%'",  # whether a schedule asked for the run
    "is_no_slot": IS_NO_SLOT,
    "slot_trigger": f"('{SLOT_PREFIX}' || schedule_id)",  # of the runs of a schedule
    "schedule_of": f"substr(trigger, {len(SLOT_PREFIX) + 1})",  # the schedule that asked for a run
}


def with_slots(statement: str, **more: str) -> str:
    """A statement with these words put in where it names them in braces, and others of its own."""
    return statement.format(**_WORDS, **more)
