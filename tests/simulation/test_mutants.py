"""Every mutant is found under a committed list of faults, under which the real code keeps every promise."""

from collections.abc import Iterator

import pytest

from onthedot_verify.simulation import simulate
from tests.simulation.kit import FAULTS, directed
from tests.simulation.mutants import MUTANTS

pytestmark = pytest.mark.slow

FILES = sorted(path.stem for path in FAULTS.glob("*.json"))


def one_for_each_rule() -> Iterator[str]:
    """Mutants for `make test`: the first of each rule, those with one rule before those with several."""
    missing = {rule for mutant in MUTANTS.values() for rule in mutant.rules}
    for name, mutant in sorted(MUTANTS.items(), key=lambda item: len(item[1].rules)):
        if missing & mutant.rules:
            missing -= mutant.rules
            yield name


CHOSEN = set(one_for_each_rule())
CHOSEN_FILES = {MUTANTS[name].faults for name in CHOSEN}


def test_every_rule_that_a_mutant_breaks_has_one_here():
    assert {rule for name in CHOSEN for rule in MUTANTS[name].rules} == {
        rule for mutant in MUTANTS.values() for rule in mutant.rules
    }


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in CHOSEN_FILES else pytest.mark.soak) for name in FILES]
)
def test_the_real_code_keeps_every_promise(name):
    assert simulate(directed(name)).violations == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in CHOSEN else pytest.mark.soak) for name in MUTANTS]
)
def test_a_mutant_is_found(name):
    mutant = MUTANTS[name]
    with mutant.planted():
        outcome = simulate(directed(mutant.faults), store=mutant.store, build=mutant.build)
    found = {violation.rule for violation in outcome.violations}
    assert found & mutant.rules, f"expected one of {sorted(mutant.rules)}, found {sorted(found)}"
