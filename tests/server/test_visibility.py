"""Visibility: one function narrows every query to the objects that the caller can see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.permissions import Principal, Role
from onthedot.server.visibility import visible_to
from onthedot.stores.queries import AttemptFilter, JobFilter, RunFilter

NAMES = st.sampled_from(["", "a", "b", "A", "a "])
ASKED = st.none() | NAMES


@pytest.mark.parametrize("kind", [JobFilter, RunFilter, AttemptFilter])
@given(namespaces=st.lists(NAMES, max_size=3), only_own=st.booleans(), asked=ASKED, owner=ASKED, at=NAMES, whose=NAMES)
def test_a_query_finds_exactly_what_the_caller_sees(kind, namespaces, only_own, asked, owner, at, whose):
    asking = Principal(
        kind="key", id="1", name="k", role=Role.ADMIN, namespaces=tuple(namespaces), owner="a", only_own=only_own
    )
    wanted = kind(namespaces=None if asked is None else (asked,), owner=owner)
    narrowed = visible_to(asking, wanted)
    finds = narrowed.namespaces is None or at in narrowed.namespaces
    finds = finds and narrowed.owner in (None, whose)
    assert finds == (asking.sees(at, whose) and asked in (None, at) and owner in (None, whose))
