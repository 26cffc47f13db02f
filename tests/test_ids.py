"""Random ids never repeat, in any thread or forked process."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest

from onthedot.ids import RandomIds


def draw(count: int) -> list[str]:
    ids = RandomIds()
    return [ids.token() for _ in range(count)]


def test_ids_of_several_threads_never_repeat():
    with ThreadPoolExecutor(4) as threads:
        drawn = [name for names in threads.map(draw, [2_000] * 8) for name in names]
    assert len(set(drawn)) == 16_000
    assert {len(name) for name in drawn} == {32}


@pytest.mark.slow
def test_ids_of_a_forked_process_never_repeat():
    """Ids that were drawn before the fork and kept for later would be the same in both processes."""
    draw(1)
    with multiprocessing.get_context("fork").Pool(2) as children:
        theirs = [name for names in children.map(draw, [300] * 2, chunksize=1) for name in names]
    ours = draw(300)
    assert len({*theirs, *ours}) == 900


def test_lease_ids_of_any_two_calls_differ():
    ids = RandomIds()
    assert len({*ids.leases(50), *ids.leases(50)}) == 100
