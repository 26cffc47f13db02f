"""Permissions: what a role may do, what a principal sees, and which rights it may give to others."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.permissions import (
    ANONYMOUS,
    LOCAL,
    ROLES,
    Grant,
    Permission,
    Principal,
    Role,
    check_given,
    check_name,
    parse_grant,
    permissions_of,
    read_grant,
)
from onthedot.model.errors import AccessDenied, DefinitionError

ANY_ROLE = st.sampled_from(Role)
SCOPES = st.none() | st.frozensets(st.sampled_from(Permission))


def test_each_role_has_all_permissions_of_the_one_below():
    ladder = [ROLES[role] for role in (Role.VIEWER, Role.OPERATOR, Role.EDITOR, Role.ADMIN)]
    assert all(lower < higher for lower, higher in pairwise(ladder))


def test_only_an_administrator_manages_keys_and_reads_the_audit():
    for permission in (Permission.KEYS_MANAGE, Permission.AUDIT_READ, Permission.NODES_CONTROL):
        assert [role for role in Role if permission in ROLES[role]] == [Role.ADMIN]


def test_an_operator_cannot_write_jobs():
    assert not ROLES[Role.OPERATOR] & {Permission.JOBS_WRITE, Permission.JOBS_CODE}


@given(ANY_ROLE, SCOPES, st.booleans())
def test_scopes_only_remove_permissions(role, scopes, may_code):
    whole = permissions_of(role, may_code=may_code)
    some = permissions_of(role, scopes=scopes, may_code=may_code)
    assert some <= whole
    assert scopes is None or some <= scopes


@given(ANY_ROLE, SCOPES)
def test_only_administrators_and_editors_with_the_extra_right_write_programs(role, scopes):
    allowed = permissions_of(role, scopes=scopes, may_code=False)
    assert Permission.JOBS_CODE not in allowed or role is Role.ADMIN
    assert (Permission.JOBS_CODE in permissions_of(role, may_code=True)) == (role in (Role.EDITOR, Role.ADMIN))


NAMES = st.sampled_from(["", "a", "b", "A", "a "])


@given(st.lists(NAMES, max_size=3), NAMES, st.booleans(), NAMES, NAMES)
def test_a_principal_sees_only_its_namespaces_and_owners(namespaces, owner, only_own, namespace, whose):
    asking = Principal(
        kind="key", id="1", name="k", role=Role.ADMIN, namespaces=tuple(namespaces), owner=owner, only_own=only_own
    )
    sees = asking.sees(namespace, whose)
    assert sees == ((namespaces == [] or namespace in namespaces) and (whose == owner or not only_own))


def test_anonymous_has_no_permission():
    assert not any(ANONYMOUS.may(permission) for permission in Permission)


def test_the_local_principal_sees_everything():
    assert LOCAL.sees("any", "body")


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
def test_a_grant_is_read_back_from_json(grant: Grant):
    assert read_grant(json.loads(json.dumps(grant.as_json()))) == grant


@given(GRANTS, GRANTS, st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["", "ann", "bob"]))
def test_a_principal_cannot_give_rights_that_it_lacks(mine: Grant, given_: Grant, namespace: str, owner: str):
    """The giver may do and see everything that the taker may do and see."""
    giver, taker = mine.principal("key", "1", "giver"), given_.principal("key", "2", "taker")
    if given_.is_within(giver):
        assert taker.permissions <= giver.permissions
        assert giver.sees(namespace, owner) or not taker.sees(namespace, owner)
    else:
        with pytest.raises((AccessDenied, DefinitionError)):
            check_given(given_, giver)


@given(GRANTS)
def test_a_grant_is_within_its_own_principal_and_the_local_one(grant: Grant):
    assert grant.is_within(grant.principal("key", "1", "k"))
    assert grant.is_within(LOCAL)
    assert not grant.permissions or not grant.is_within(ANONYMOUS)


@given(GRANTS, st.sampled_from(["role", "scopes", "may_code", "namespaces", "owner", "only_own"]))
def test_a_stored_grant_without_a_field_is_refused(grant: Grant, name: str):
    data = grant.as_json()
    del data[name]
    with pytest.raises(KeyError):
        read_grant(data)


@pytest.mark.parametrize(
    "change",
    [{"role": "root"}, {"scopes": ["all"]}, {"scopes": "jobs:read"}, {"namespaces": None}, {"namespaces": "a"},
     {"namespaces": [None]}, {"scopes": 0}],
)  # fmt: skip
def test_an_invalid_stored_grant_is_refused(change: dict[str, object]):
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
def test_an_invalid_grant_is_refused_with_advice(words: dict[str, object], told: str):
    with pytest.raises(DefinitionError) as error:
        parse_grant(**words)  # type: ignore[arg-type]
    assert told in str(error.value)


def test_all_problems_of_a_grant_are_reported_together():
    with pytest.raises(DefinitionError) as error:
        parse_grant("root", scopes=["x", "jobs:read"])
    assert len(error.value.problems) == 2


@pytest.mark.parametrize("name", ["", "a b", "a\n", "-a", "x" * 101, "é", "a/b", "\0"])
def test_an_invalid_name_is_refused(name: str):
    with pytest.raises(DefinitionError, match="name of the key: expected a name of letters"):
        check_name("name of the key", name)
