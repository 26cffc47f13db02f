"""What there is for somebody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.permissions import Permission, Role
from onthedot.access.principal import ANONYMOUS, LOCAL, Principal

NAMES = st.sampled_from(["", "a", "b", "A", "a "])


@given(st.lists(NAMES, max_size=3), NAMES, st.booleans(), NAMES, NAMES)
def test_nobody_sees_across_namespaces_or_owners(namespaces, owner, only_own, namespace, whose):
    asking = Principal(
        kind="key", id="1", name="k", role=Role.ADMIN, namespaces=tuple(namespaces), owner=owner, only_own=only_own
    )
    sees = asking.sees(namespace, whose)
    assert sees == ((namespaces == [] or namespace in namespaces) and (whose == owner or not only_own))


def test_nobody_may_anything():
    assert not any(ANONYMOUS.may(permission) for permission in Permission)


def test_whoever_has_the_store_sees_everything():
    assert LOCAL.sees("any", "body")
