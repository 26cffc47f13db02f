"""Virtual time, as tests use it. How it passes: `onthedot.virtual.loop`."""

from onthedot.virtual.loop import VirtualClock, VirtualLoop, run_virtual

__all__ = ["VirtualClock", "VirtualLoop", "run_virtual"]
