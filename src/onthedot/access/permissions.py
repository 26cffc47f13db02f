"""The permissions, and the roles that have them. Pure. `docs/operate/access.md` explains them."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

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
