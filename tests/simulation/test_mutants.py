"""Each mutant is found under a fault file, under which the real code keeps every promise."""

from collections.abc import Iterator

import pytest

from onthedot_verify.simulation import simulate
from tests.simulation.mutants import MUTANTS
from tests.simulation.workloads import FAULTS, directed

pytestmark = pytest.mark.slow

FILES = sorted(path.stem for path in FAULTS.glob("*.json"))


def one_for_each_rule() -> Iterator[str]:
    """Mutants for `make test`: the first of each rule. Mutants with one rule come first."""
    missing = {rule for mutant in MUTANTS.values() for rule in mutant.rules}
    for name, mutant in sorted(MUTANTS.items(), key=lambda item: len(item[1].rules)):
        if missing & mutant.rules:
            missing -= mutant.rules
            yield name


CHOSEN = set(one_for_each_rule())
CHOSEN_FILES = {MUTANTS[name].faults for name in CHOSEN}


def test_each_rule_with_mutants_has_one_in_make_test():
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
def test_the_checker_finds_a_mutant(name):
    mutant = MUTANTS[name]
    with mutant.planted():
        outcome = simulate(directed(mutant.faults), store=mutant.store, build=mutant.build)
    found = {violation.rule for violation in outcome.violations}
    assert found & mutant.rules, f"expected one of {sorted(mutant.rules)}, found {sorted(found)}"
