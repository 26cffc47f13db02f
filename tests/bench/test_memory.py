"""The memory of a node hardly grows with the number of stored jobs: they stay in the store until they are due."""

from __future__ import annotations

import pytest

from bench.sizing import FEW, MANY, watch


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_100_000_jobs_take_at_most_10_mb_more_than_1_000_jobs(tmp_path):
    few, many = (watch(tmp_path / f"{jobs}.db", jobs, seconds=4.0, seed=1) for jobs in (FEW, MANY))
    assert many.megabytes - few.megabytes < 10, f"{few.megabytes:.1f} MB and {many.megabytes:.1f} MB"
