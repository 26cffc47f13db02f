"""A cluster in virtual time, from a seed: real engines, one store, and everything that can go wrong between them.

    from onthedot.testing.simulation import Scenario, simulate
    outcome = simulate(Scenario(seed="7"))
    assert not outcome.violations

or `python -m onthedot.testing.simulation --seed 7`.
"""

from onthedot.testing.simulation.actions import Action
from onthedot.testing.simulation.cluster import Outcome, Scenario, simulate
from onthedot.testing.simulation.faults import CALM, Fault, Weather
from onthedot.testing.simulation.workload import Behaviour, Workload

__all__ = ["CALM", "Action", "Behaviour", "Fault", "Outcome", "Scenario", "Weather", "Workload", "simulate"]
