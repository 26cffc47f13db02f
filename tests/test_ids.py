"""Names that nobody else has."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest

from onthedot.ids import RandomIds


def draw(count: int) -> list[str]:
    ids = RandomIds()
    return [ids.token() for _ in range(count)]


def test_no_name_comes_twice_in_whichever_thread():
    with ThreadPoolExecutor(4) as threads:
        drawn = [name for names in threads.map(draw, [2_000] * 8) for name in names]
    assert len(set(drawn)) == 16_000
    assert {len(name) for name in drawn} == {32}


@pytest.mark.slow
def test_no_name_comes_again_in_a_process_that_was_forked():
    """What was drawn ahead would be the same in both."""
    draw(1)
    with multiprocessing.get_context("fork").Pool(2) as children:
        theirs = [name for names in children.map(draw, [300] * 2, chunksize=1) for name in names]
    ours = draw(300)
    assert len({*theirs, *ours}) == 900


def test_leases_of_one_call_differ_and_so_do_those_of_another():
    ids = RandomIds()
    assert len({*ids.leases(50), *ids.leases(50)}) == 100
