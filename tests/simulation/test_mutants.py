"""Every mutant is found under a committed list of faults, under which the real code keeps every promise."""

import pytest

from onthedot.testing.simulation import simulate
from tests.simulation.kit import FAULTS, directed
from tests.simulation.mutants import MUTANTS

pytestmark = pytest.mark.slow

FILES = sorted(path.stem for path in FAULTS.glob("*.json"))


@pytest.mark.parametrize("name", FILES)
def test_the_real_code_keeps_every_promise(name):
    assert simulate(directed(name)).violations == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name):
    mutant = MUTANTS[name]
    outcome = simulate(directed(mutant.faults), store=mutant.store, build=mutant.build)
    found = {violation.rule for violation in outcome.violations}
    assert found & mutant.rules, f"expected one of {sorted(mutant.rules)}, found {sorted(found)}"
