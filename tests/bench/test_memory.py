"""A node's memory does not grow with the jobs that are stored: they stay in the store until their time comes."""

from __future__ import annotations

import pytest

from bench.sizing import FEW, MANY, watch


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_a_hundred_thousand_jobs_take_ten_megabytes_more_than_a_thousand_at_the_most(tmp_path):
    few, many = (watch(tmp_path / f"{jobs}.db", jobs, seconds=4.0, seed=1) for jobs in (FEW, MANY))
    assert many.megabytes - few.megabytes < 10, f"{few.megabytes:.1f} MB and {many.megabytes:.1f} MB"
