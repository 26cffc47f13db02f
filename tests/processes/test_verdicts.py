"""The check that no job overlaps itself finds every overlap without an excuse, and accepts the others."""

from __future__ import annotations

import pytest

from tests.crash.kit import Evidence
from tests.processes.kit import Fault
from tests.processes.verdicts import no_job_overlaps_itself

MARGIN = 100


def seen(*attempts: tuple[str, int, int, int]) -> Evidence:
    """Return evidence of these attempts of one job: (node, fence, start, end)."""
    evidence = Evidence()
    for node, fence, start, end in attempts:
        entry = {"job": "long", "run": fence, "fence": fence, "node": node, "slot": start}
        evidence.starts[fence].append({**entry, "at": start})
        evidence.ends[fence].append({**entry, "at": end})
    return evidence


BOTH = seen(("a", 1, 1000, 2000), ("b", 2, 1500, 1600))


def test_attempts_one_after_the_other_are_accepted():
    no_job_overlaps_itself(seen(("a", 1, 1000, 2000), ("b", 2, 2000, 2100)), [], margin=MARGIN)


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [Fault("b", "freeze", 1100, 1900)],  # the other node
        [Fault("a", "freeze", 1100, 1150)],  # shorter than the margin
        [Fault("a", "freeze", 1550, 1900)],  # began after the overlap
        [Fault("a", "freeze", 100, 900)],  # long before
        [Fault("b", "kill", 1100, 1200)],
    ],
)
def test_an_overlap_without_an_excuse_is_found(faults):
    with pytest.raises(AssertionError, match="long overlaps itself"):
        no_job_overlaps_itself(BOTH, faults, margin=MARGIN)


@pytest.mark.parametrize("node", ["a", "*"])
def test_a_freeze_of_the_older_node_beyond_its_margin_is_an_excuse(node):
    no_job_overlaps_itself(BOTH, [Fault(node, "freeze", 1100, 1900)], margin=MARGIN)
