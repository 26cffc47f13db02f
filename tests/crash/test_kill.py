"""kill -9 at every named crash point and at random instants: the store stays consistent.

All victims of a test share one database.
"""

import os
import random
import signal

import pytest

from onthedot.fault_points import POINTS, TRANSACTIONAL
from tests.crash import kit, verdicts
from tests.lanes import SOAK

KILLS = 300 if SOAK else 12
SEED = int(os.environ.get("ONTHEDOT_SEED", "20261115"))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_store_is_consistent_after_a_kill_at_every_crash_point(tmp_path):
    victims = kit.Victims(tmp_path)
    for point in POINTS:
        if point in TRANSACTIONAL:
            continue  # these points do not exist on SQLite: see test_exactly_once.py
        if point.startswith("reap."):  # needs a dead node that left a run to reap
            assert victims.crash_at("attempt.before_call") == -signal.SIGKILL
        assert victims.crash_at(point) == -signal.SIGKILL, f"{point} was never reached"
    for point in ("reserve.after_write:2", "arm.after_write:3", "attempt.after_call:9", "finish.after_write:5"):
        assert victims.crash_at(point) == -signal.SIGKILL, f"{point} was never reached"
    victims.settle()
    verdicts.check_all(await kit.gather_evidence(victims))


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 600)
async def test_the_store_is_consistent_after_kills_at_random_instants(tmp_path):
    victims = kit.Victims(tmp_path)
    chance = random.Random(SEED)
    for _ in range(KILLS):
        assert victims.kill_after(chance.uniform(0, 1.2)) == -signal.SIGKILL
    victims.settle()
    verdicts.check_all(await kit.gather_evidence(victims))
