"""Virtual time, as tests use it. How it passes: `onthedot.simulate.virtual_loop`."""

from onthedot.simulate.virtual_loop import VirtualClock, VirtualLoop, run_virtual

__all__ = ["VirtualClock", "VirtualLoop", "run_virtual"]
