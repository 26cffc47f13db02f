"""The principal of a request: its role, its restrictions, and what it can see. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from onthedot.access.permissions import Permission, Role, permissions_of


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
        """Computed once, because every request needs it."""
        has = permissions_of(self.role, scopes=self.scopes, may_code=self.may_code)
        object.__setattr__(self, "permissions", has)

    def may(self, permission: Permission) -> bool:
        """Whether it has this permission.

        >>> LOCAL.may(Permission.AUDIT_READ)
        True
        """
        return permission in self.permissions

    def sees(self, namespace: str, owner: str) -> bool:
        """Whether it can see a job of this namespace and owner, with everything that belongs to the job.

        >>> Principal(kind="key", id="k1", name="ci", role=Role.EDITOR, namespaces=("ci",)).sees("prod", "")
        False
        """
        return (not self.namespaces or namespace in self.namespaces) and (not self.only_own or owner == self.owner)

    @property
    def only_owner(self) -> str | None:
        """The only owner whose objects it sees; None: all owners."""
        return self.owner if self.only_own else None


LOCAL = Principal(kind="local", id="local", name="local", role=Role.ADMIN)
"""A process that opens the store itself. The store's URL is all it needs."""

ANONYMOUS = Principal(kind="nobody", id="", name="anonymous", role=Role.VIEWER, scopes=frozenset())
"""A caller who was not authenticated, in the audit. It has no permissions."""
