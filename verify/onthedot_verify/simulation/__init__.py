"""The simulator: a cluster in virtual time, from a seed. It has real engines, one store, and faults between them.

    from onthedot_verify.simulation import Scenario, simulate
    outcome = simulate(Scenario(seed="7"))
    assert not outcome.violations

or `python -m onthedot_verify.simulation --seed 7`.
"""

from onthedot_verify.simulation.actions import Action
from onthedot_verify.simulation.cluster import Outcome, Scenario, simulate
from onthedot_verify.simulation.faults import CALM, Fault, Weather
from onthedot_verify.simulation.workload import Behaviour, Workload

__all__ = ["CALM", "Action", "Behaviour", "Fault", "Outcome", "Scenario", "Weather", "Workload", "simulate"]
