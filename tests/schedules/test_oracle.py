"""Drawn examples do not depend on the machine: a zone is found although no file can be opened.

Otherwise an example could be valid once and invalid the next time.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from onthedot.model.errors import ScheduleError
from onthedot.schedules.zones import zone
from tests.schedules import oracle


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_drawn_zone_needs_no_file():
    with no_file_can_be_opened():
        for key in oracle.ALL_ZONES:
            assert zone(key).key == key


def test_an_unreadable_zone_is_not_reported_as_unknown():
    with no_file_can_be_opened(), pytest.raises(ScheduleError) as told:
        zone("Europe")  # not one of the zones that the oracle keeps loaded
    assert (
        str(told.value) == "tz: expected zone data that can be read, got 'Too many open files' for 'Europe'; ask again"
    )
