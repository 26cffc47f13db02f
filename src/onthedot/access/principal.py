"""Who asks, and what there is for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from onthedot.access.permissions import Permission, Role, permissions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """One who was let in. What it cannot see is not there for it, whatever it asks.

    `namespaces` are those that it can see; empty: all. `owner` is who the jobs belong to that it makes; with `only_own`
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
        """Asked with every request, so it is worked out once."""
        has = permissions_of(self.role, scopes=self.scopes, may_code=self.may_code)
        object.__setattr__(self, "permissions", has)

    def may(self, permission: Permission) -> bool:
        """Whether this is allowed at all.

        >>> LOCAL.may(Permission.AUDIT_READ)
        True
        """
        return permission in self.permissions

    def sees(self, namespace: str, owner: str) -> bool:
        """Whether a job of this namespace and owner, and all that belongs to it, is there for this one.

        >>> Principal(kind="key", id="k1", name="ci", role=Role.EDITOR, namespaces=("ci",)).sees("prod", "")
        False
        """
        return (not self.namespaces or namespace in self.namespaces) and (not self.only_own or owner == self.owner)

    @property
    def only_owner(self) -> str | None:
        """Whose objects alone are to be looked for; None: everybody's."""
        return self.owner if self.only_own else None


LOCAL = Principal(kind="local", id="local", name="local", role=Role.ADMIN)
"""Who has the store itself in hand: its URL is all that it takes."""

ANONYMOUS = Principal(kind="nobody", id="", name="anonymous", role=Role.VIEWER, scopes=frozenset())
"""Who was not let in, as the audit names them: nothing is allowed."""
