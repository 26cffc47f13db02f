"""Faults and actions are data that people write: a slip in them is said, and is not a test that always passes."""

from __future__ import annotations

import pytest

from onthedot.model.errors import DefinitionError
from onthedot_verify.simulation import Action, Fault
from onthedot_verify.simulation.actions import KINDS as ACTIONS
from onthedot_verify.simulation.faults import KINDS, OPS, from_json, generate, to_json


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ({"kind": "crsh"}, "kind of a fault: expected one that is known, got 'crsh', did you mean 'crash'?"),
        ({"op": "finsh"}, "op of a fault: expected one that is known, got 'finsh', did you mean 'finish'?"),
        ({"when": "mid"}, "when of a fault: expected one that is known, got 'mid'; known: after, before"),
    ],
)
def test_a_slip_in_a_fault_is_said(slip, said):
    with pytest.raises(DefinitionError) as caught:
        Fault(**{"at": 1, "kind": "crash", "node": 0, "length": 1} | slip)
    assert str(caught.value) == said


def test_a_slip_in_an_action_is_said():
    with pytest.raises(DefinitionError, match="kind of an action: expected one that is known, got 'sumbit', did you"):
        Action(1, "sumbit", 0, "mail")


def test_what_can_be_drawn_can_be_written():
    assert [Fault(0, kind, 0, 1, op=op).op for kind in KINDS for op in OPS] == [*OPS] * len(KINDS)
    assert [kind for kind in ACTIONS if Action(0, kind, 0, "mail").kind not in (Action.__doc__ or "")] == []


def test_faults_can_be_kept_as_text():
    drawn = [*generate("7", nodes=3, seconds=3_600, every=10, extra=("step", "held")), Fault(1, "crash", 0, 0)]
    assert {fault.kind for fault in drawn} == set(KINDS)
    assert from_json(to_json(drawn)) == drawn
