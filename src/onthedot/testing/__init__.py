"""What tests of onthedot, and of programs that embed it, are made of: virtual time, a harness, the store contract."""

from onthedot.testing.clock import VirtualClock, VirtualLoop, run_virtual
from onthedot.testing.fixture import Harnesses
from onthedot.testing.harness import Harness

__all__ = ["Harness", "Harnesses", "VirtualClock", "VirtualLoop", "run_virtual"]
