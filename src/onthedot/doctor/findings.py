"""What a look at one thing has shown."""

from __future__ import annotations

from dataclasses import dataclass

from onthedot.runners.probes import Probe, State


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: how it is, and if it is not well, what that costs and what to do. `wanted`: the configuration asks for
    it, so that it is a fault if it does not work.

    >>> Finding("git", "missing", "git is not installed", "no sources", "install git").is_fault
    False
    """

    name: str
    state: State
    found: str
    costs: str = ""
    remedy: str = ""
    wanted: bool = False

    @property
    def is_fault(self) -> bool:
        """Whether something that was asked for does not work."""
        return self.wanted and self.state != "ok"


def finding(name: str, probe: Probe, *, costs: str, remedy: str, wanted: bool = False) -> Finding:
    """From a probe: what it would cost is told only if it does."""
    if probe.state == "ok":
        return Finding(name, "ok", probe.found, wanted=wanted)
    return Finding(name, probe.state, probe.found, costs, remedy, wanted)
