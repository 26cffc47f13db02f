"""What can be given: in words, read back, and never more than whoever gives it has."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.grants import Grant, check_given, check_name, grant_in_words, read_grant
from onthedot.access.permissions import Permission, Role
from onthedot.access.principal import ANONYMOUS, LOCAL
from onthedot.model.errors import AccessDenied, DefinitionError

NAMESPACES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True).map(tuple)
GRANTS = st.builds(
    Grant,
    role=st.sampled_from(Role),
    scopes=st.none() | st.frozensets(st.sampled_from(Permission)),
    may_code=st.booleans(),
    namespaces=NAMESPACES,
    owner=st.sampled_from(["", "ann", "bob"]),
    only_own=st.booleans(),
)


@given(GRANTS)
def test_what_is_stored_is_read_back(grant: Grant):
    assert read_grant(json.loads(json.dumps(grant.as_json()))) == grant


@given(GRANTS, GRANTS, st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["", "ann", "bob"]))
def test_nobody_gives_what_they_do_not_have(mine: Grant, given_: Grant, namespace: str, owner: str):
    """Whatever the new one may do and see, whoever has given it could do and see."""
    giver, taker = mine.principal("key", "1", "giver"), given_.principal("key", "2", "taker")
    if given_.is_within(giver):
        assert taker.permissions <= giver.permissions
        assert giver.sees(namespace, owner) or not taker.sees(namespace, owner)
    else:
        with pytest.raises((AccessDenied, DefinitionError)):
            check_given(given_, giver)


@given(GRANTS)
def test_everybody_has_what_they_have_and_the_store_has_all(grant: Grant):
    assert grant.is_within(grant.principal("key", "1", "k"))
    assert grant.is_within(LOCAL)
    assert not grant.permissions or not grant.is_within(ANONYMOUS)


@given(GRANTS, st.sampled_from(["role", "scopes", "may_code", "namespaces", "owner", "only_own"]))
def test_nothing_that_is_missing_is_filled_in(grant: Grant, name: str):
    data = grant.as_json()
    del data[name]
    with pytest.raises(KeyError):
        read_grant(data)


@pytest.mark.parametrize(
    "change",
    [{"role": "root"}, {"scopes": ["all"]}, {"scopes": "jobs:read"}, {"namespaces": None}, {"namespaces": "a"},
     {"namespaces": [None]}, {"scopes": 0}],
)  # fmt: skip
def test_what_is_no_grant_is_not_read(change: dict[str, object]):
    with pytest.raises((ValueError, TypeError)):
        read_grant(Grant(role=Role.VIEWER).as_json() | change)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"role": "opertor"}, "role: unknown role 'opertor', did you mean 'operator'?"),
        ({"role": "viewer", "scopes": ["jobs:wriet"]}, "unknown permission 'jobs:wriet', did you mean 'jobs:write'?"),
        ({"role": "viewer", "scopes": ["jobs:write"]}, "scope: expected a permission of the role viewer, got jobs:wri"),
        ({"role": "admin", "may_code": True}, "jobs:code: expected the role editor to add it to, got admin"),
        ({"role": "viewer", "namespaces": ["a/b"]}, "namespace: expected letters, digits"),
        ({"role": "viewer", "owner": "a\nb"}, "owner: expected up to 100 characters that can be printed"),
        ({"role": "viewer", "only_own": True}, "only its own: expected an owner"),
    ],
)
def test_what_is_said_wrongly_is_refused(words: dict[str, object], told: str):
    with pytest.raises(DefinitionError) as error:
        grant_in_words(**words)  # type: ignore[arg-type]
    assert told in str(error.value)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(DefinitionError) as error:
        grant_in_words("root", scopes=["x", "jobs:read"])
    assert len(error.value.problems) == 2


@pytest.mark.parametrize("name", ["", "a b", "a\n", "-a", "x" * 101, "é", "a/b", "\0"])
def test_what_nobody_can_be_called(name: str):
    with pytest.raises(DefinitionError, match="name of the key: expected a name of letters"):
        check_name("name of the key", name)
