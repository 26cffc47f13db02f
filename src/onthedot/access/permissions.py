"""Permissions, the roles that have them, grants of a role, and principals: the callers that have a grant. Pure.

    Permission ◀── Role ◀── Grant (a role with restrictions) ──▶ Principal (an authenticated caller)

`docs/operate/access.md` explains them. A grant that cannot be read is refused; missing parts are never filled in. An
empty list of namespaces means all of them, so a missing list must not become an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from onthedot.model.errors import AccessDenied, DefinitionError, did_you_mean
from onthedot.model.task import Command, Container, Steps, Task


class Permission(StrEnum):
    """A permission: `object:verb`. Each route of the HTTP API declares exactly one."""

    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    JOBS_CODE = "jobs:code"  # besides jobs:write: for tasks that run programs
    JOBS_CONTROL = "jobs:control"
    RUNS_READ = "runs:read"
    RUNS_CONTROL = "runs:control"
    LOGS_READ = "logs:read"
    NODES_READ = "nodes:read"
    NODES_CONTROL = "nodes:control"
    QUEUES_READ = "queues:read"
    QUEUES_CONTROL = "queues:control"
    KEYS_OWN = "keys:own"
    KEYS_MANAGE = "keys:manage"
    METRICS_READ = "metrics:read"
    AUDIT_READ = "audit:read"


class Role(StrEnum):
    """The role of a key or a user on a server."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"
    WORKER = "worker"


_P = Permission
_VIEWER = frozenset(
    {_P.JOBS_READ, _P.RUNS_READ, _P.LOGS_READ, _P.NODES_READ, _P.QUEUES_READ, _P.METRICS_READ, _P.KEYS_OWN}
)
_OPERATOR = _VIEWER | {_P.JOBS_CONTROL, _P.RUNS_CONTROL, _P.QUEUES_CONTROL}
_EDITOR = _OPERATOR | {_P.JOBS_WRITE}

ROLES: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.EDITOR: _EDITOR,
    Role.ADMIN: frozenset(Permission),
    Role.WORKER: frozenset({_P.NODES_READ, _P.QUEUES_READ, _P.KEYS_OWN}),
}


def permissions_of(
    role: Role, *, scopes: Collection[Permission] | None = None, may_code: bool = False
) -> frozenset[Permission]:
    """The permissions of a role, restricted by scopes (None: not restricted). Only an editor can also have
    `jobs:code`.

    >>> sorted(permissions_of(Role.EDITOR, scopes=[Permission.JOBS_WRITE, Permission.KEYS_MANAGE]))
    [<Permission.JOBS_WRITE: 'jobs:write'>]
    >>> Permission.JOBS_CODE in permissions_of(Role.EDITOR, may_code=True)
    True
    """
    has = ROLES[role]
    if may_code and role is Role.EDITOR:
        has |= {Permission.JOBS_CODE}
    return has if scopes is None else has & frozenset(scopes)


def writing_needs(task: Task) -> Permission:
    """The permission to write a job with this task. Tasks that run programs need one of their own.

    >>> from onthedot.model.task import Noop
    >>> str(writing_needs(Noop())), str(writing_needs(Command(argv=("true",))))
    ('jobs:write', 'jobs:code')
    """
    return Permission.JOBS_CODE if isinstance(task, Command | Steps | Container) else Permission.JOBS_WRITE


# ── principals ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller. For it, objects that it cannot see do not exist.

    `namespaces` are those that it can see; empty: all. `owner` is the owner of the jobs that it makes. With `only_own`
    it sees no others.
    """

    kind: Literal["key", "session", "local", "nobody"]
    id: str
    name: str
    role: Role
    scopes: frozenset[Permission] | None = None
    may_code: bool = False
    namespaces: tuple[str, ...] = ()
    owner: str = ""
    only_own: bool = False
    permissions: frozenset[Permission] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the permissions once, because every request needs them."""
        has = permissions_of(self.role, scopes=self.scopes, may_code=self.may_code)
        object.__setattr__(self, "permissions", has)

    def may(self, permission: Permission) -> bool:
        """Return whether the principal has this permission.

        >>> LOCAL.may(Permission.AUDIT_READ)
        True
        """
        return permission in self.permissions

    def sees(self, namespace: str, owner: str) -> bool:
        """Return whether the principal can see a job of this namespace and owner, with everything that belongs to the
        job.

        >>> Principal(kind="key", id="k1", name="ci", role=Role.EDITOR, namespaces=("ci",)).sees("prod", "")
        False
        """
        return (not self.namespaces or namespace in self.namespaces) and (not self.only_own or owner == self.owner)

    @property
    def only_owner(self) -> str | None:
        """The only owner whose objects the principal sees; None means all owners."""
        return self.owner if self.only_own else None


LOCAL = Principal(kind="local", id="local", name="local", role=Role.ADMIN)
"""A process that opens the store itself. The store's URL is all it needs."""

ANONYMOUS = Principal(kind="nobody", id="", name="anonymous", role=Role.VIEWER, scopes=frozenset())
"""A caller who was not authenticated, in the audit. It has no permissions."""


# ── grants ──────────────────────────────────────────────────────────────────────────────────────────────────────────


NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,99}")
"""Names of keys and users."""
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}")
_MOST_NAMESPACES = 100
_MOST_OWNER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role and its restrictions, which `Principal` explains."""

    role: Role
    scopes: frozenset[Permission] | None = None
    may_code: bool = False
    namespaces: tuple[str, ...] = ()
    owner: str = ""
    only_own: bool = False

    @property
    def permissions(self) -> frozenset[Permission]:
        """The permissions of the role, restricted."""
        return permissions_of(self.role, scopes=self.scopes, may_code=self.may_code)

    def principal(self, kind: Literal["key", "session"], id: str, name: str) -> Principal:
        """The principal that has this grant."""
        return Principal(
            kind=kind, id=id, name=name, role=self.role, scopes=self.scopes, may_code=self.may_code,
            namespaces=self.namespaces, owner=self.owner, only_own=self.only_own,
        )  # fmt: skip

    def is_within(self, principal: Principal) -> bool:
        """Return whether the principal has at least these rights. Then it may grant them, revoke them, and see who has
        them.

        >>> from onthedot.access.permissions import LOCAL
        >>> Grant(role=Role.ADMIN).is_within(LOCAL)
        True
        >>> Grant(role=Role.VIEWER).is_within(Grant(role=Role.ADMIN, namespaces=("qa",)).principal("key", "1", "qa"))
        False
        """
        seen = not principal.namespaces or (self.namespaces != () and set(self.namespaces) <= set(principal.namespaces))
        own = not principal.only_own or (self.only_own and self.owner == principal.owner)
        return seen and own and self.permissions <= principal.permissions

    def as_json(self) -> dict[str, Any]:
        """The grant as it is stored and shown."""
        return {
            "role": str(self.role),
            "scopes": None if self.scopes is None else sorted(self.scopes),
            "may_code": self.may_code,
            "namespaces": list(self.namespaces),
            "owner": self.owner,
            "only_own": self.only_own,
        }


def read_grant(data: Any) -> Grant:
    """Read a stored grant. Raise `ValueError`, `TypeError` or `KeyError` for anything else."""
    scopes, namespaces = data["scopes"], data["namespaces"]
    if not isinstance(namespaces, list) or not all(isinstance(name, str) for name in namespaces):
        raise TypeError("namespaces: expected a list of names")
    if not (scopes is None or isinstance(scopes, list)):
        raise TypeError("scopes: expected a list of permissions, or null")
    return Grant(
        role=Role(data["role"]),
        scopes=None if scopes is None else frozenset(Permission(scope) for scope in scopes),
        may_code=data["may_code"] is True,
        namespaces=tuple(namespaces),
        owner=str(data["owner"]),
        only_own=data["only_own"] is not False,
    )


def parse_grant(
    role: str,
    *,
    scopes: Sequence[str] | None = None,
    may_code: bool = False,
    namespaces: Sequence[str] = (),
    owner: str = "",
    only_own: bool = False,
) -> Grant:
    """Read a grant from text. Raise `DefinitionError`, which lists all problems.

    >>> parse_grant("viewer", scopes=["jobs:raed"])
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: scope: unknown permission 'jobs:raed', did you mean 'jobs:read'?
    """
    problems = []
    if role not in set(Role):
        problems.append(f"role: unknown role {role!r}{did_you_mean(role, map(str, Role))}")
    problems += [
        f"scope: unknown permission {scope!r}{did_you_mean(scope, map(str, Permission))}"
        for scope in scopes or ()
        if scope not in set(Permission)
    ]
    if problems:
        raise DefinitionError(problems)
    grant = Grant(
        role=Role(role),
        scopes=None if scopes is None else frozenset(Permission(scope) for scope in scopes),
        may_code=may_code,
        namespaces=tuple(dict.fromkeys(namespaces)),
        owner=owner,
        only_own=only_own,
    )
    check_grant(grant)
    return grant


def edited_grant(grant: Grant, said: Mapping[str, Any]) -> Grant:
    """The grant with these values changed, by the names of `parse_grant`. A change from editor to another role removes
    `may_code`. Raise `DefinitionError` for a grant that contradicts itself.

    >>> ann = parse_grant("editor", may_code=True, namespaces=["shop"])
    >>> edited_grant(ann, {"role": "viewer"}) == parse_grant("viewer", namespaces=["shop"])
    True
    """
    whole = {**grant.as_json(), **said}
    if "role" in said and "may_code" not in said and said["role"] != Role.EDITOR:
        whole["may_code"] = False
    return parse_grant(whole.pop("role"), **whole)


def check_grant(grant: Grant) -> None:
    """Raise `DefinitionError` for a grant that contradicts itself."""
    whole = permissions_of(grant.role, may_code=grant.may_code)
    problems = [
        f"scope: expected a permission of the role {grant.role}, got {scope}; give another role, or leave it out"
        for scope in sorted((grant.scopes or frozenset()) - whole)
    ]
    if grant.may_code and grant.role is not Role.EDITOR:
        problems.append(f"jobs:code: expected the role editor to add it to, got {grant.role}")
    if len(grant.namespaces) > _MOST_NAMESPACES:
        problems.append(f"namespaces: expected at most {_MOST_NAMESPACES}, got {len(grant.namespaces)}")
    problems += [
        f"namespace: expected letters, digits, '_', '-', '.' or ':', got {name!r}"
        for name in grant.namespaces
        if not _NAMESPACE.fullmatch(name)
    ]
    if len(grant.owner) > _MOST_OWNER or not grant.owner.isprintable():
        problems.append(f"owner: expected up to {_MOST_OWNER} characters that can be printed, got {grant.owner!r}")
    if grant.only_own and not grant.owner:
        problems.append("only its own: expected an owner whose jobs these are, got none; say the owner, too")
    if problems:
        raise DefinitionError(problems)


def check_name(what: str, name: str) -> None:
    """Raise `DefinitionError` for a text that cannot be the name of a key or a user."""
    if not NAME.fullmatch(name):
        raise DefinitionError(
            f"{what}: expected a name of letters, digits, '_', '-', '.', ':' or '@', at most 100 of them, got {name!r}"
        )


def check_given(grant: Grant, by: Principal) -> None:
    """Raise `DefinitionError` for a grant that contradicts itself, and `AccessDenied` for one with more rights than
    `by` has."""
    check_grant(grant)
    if not grant.is_within(by):
        raise AccessDenied(
            f"{by.name} ({by.role}) may not give this: expected no more permissions, namespaces and owners than "
            "it has itself; ask somebody who has them"
        )
