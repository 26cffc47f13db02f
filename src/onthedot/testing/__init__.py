"""Tests of jobs in virtual time: a harness that runs a scheduler, the pytest fixture's class, and the virtual clock."""

from onthedot.simulate.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from onthedot.testing.fixture import Harnesses
from onthedot.testing.harness import Harness

__all__ = ["Harness", "Harnesses", "VirtualClock", "VirtualLoop", "run_virtual"]
