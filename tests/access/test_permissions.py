"""What a role may."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.permissions import ROLES, Permission, Role, permissions_of

ROWS = st.sampled_from(Role)
SCOPES = st.none() | st.frozensets(st.sampled_from(Permission))


def test_each_role_has_all_that_the_one_before_it_has():
    ladder = [ROLES[role] for role in (Role.VIEWER, Role.OPERATOR, Role.EDITOR, Role.ADMIN)]
    assert all(lower < higher for lower, higher in pairwise(ladder))


def test_only_an_administrator_manages_keys_and_reads_the_audit():
    for permission in (Permission.KEYS_MANAGE, Permission.AUDIT_READ, Permission.NODES_CONTROL):
        assert [role for role in Role if permission in ROLES[role]] == [Role.ADMIN]


def test_whoever_runs_things_cannot_write_them():
    assert not ROLES[Role.OPERATOR] & {Permission.JOBS_WRITE, Permission.JOBS_CODE}


@given(ROWS, SCOPES, st.booleans())
def test_scopes_only_take_away(role, scopes, may_code):
    whole = permissions_of(role, may_code=may_code)
    some = permissions_of(role, scopes=scopes, may_code=may_code)
    assert some <= whole
    assert scopes is None or some <= scopes


@given(ROWS, SCOPES)
def test_programs_are_for_editors_who_were_told_so_and_administrators(role, scopes):
    allowed = permissions_of(role, scopes=scopes, may_code=False)
    assert Permission.JOBS_CODE not in allowed or role is Role.ADMIN
    assert (Permission.JOBS_CODE in permissions_of(role, may_code=True)) == (role in (Role.EDITOR, Role.ADMIN))
