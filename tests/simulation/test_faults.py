"""Unknown names in faults and actions are errors, and both can be stored as text."""

from __future__ import annotations

import pytest

from onthedot.model.errors import DefinitionError
from onthedot_verify.simulation import Action, Fault
from onthedot_verify.simulation.actions import KINDS as ACTIONS
from onthedot_verify.simulation.faults import KINDS, OPS, from_json, generate, to_json


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ({"kind": "crsh"}, "kind of a fault: expected a known kind, got 'crsh', did you mean 'crash'?"),
        ({"op": "finsh"}, "op of a fault: expected a known op, got 'finsh', did you mean 'finish'?"),
        ({"when": "mid"}, "when of a fault: expected a known when, got 'mid'; known: after, before"),
    ],
)
def test_an_unknown_name_in_a_fault_is_an_error(slip, said):
    with pytest.raises(DefinitionError) as caught:
        Fault(**{"at": 1, "kind": "crash", "node": 0, "length": 1} | slip)
    assert str(caught.value) == said


def test_an_unknown_kind_of_action_is_an_error():
    with pytest.raises(DefinitionError, match="kind of an action: expected a known kind, got 'sumbit', did you"):
        Action(1, "sumbit", 0, "mail")


def test_each_kind_is_valid_and_documented():
    assert [Fault(0, kind, 0, 1, op=op).op for kind in KINDS for op in OPS] == [*OPS] * len(KINDS)
    assert [kind for kind in ACTIONS if Action(0, kind, 0, "mail").kind not in (Action.__doc__ or "")] == []


def test_faults_are_read_as_they_were_written():
    drawn = [*generate("7", nodes=3, seconds=3_600, every=10, extra=("step", "held")), Fault(1, "crash", 0, 0)]
    assert {fault.kind for fault in drawn} == set(KINDS)
    assert from_json(to_json(drawn)) == drawn
