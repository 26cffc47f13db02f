"""The options of `onthedot keys` and `onthedot users` that say what is granted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from onthedot.access.permissions import Grant, grant_in_words

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--role", metavar="ROLE", default="viewer", show_default=True,
                 help="What it may: viewer, operator, editor, admin or worker."),
    click.option("--scope", "scopes", metavar="PERMISSION", multiple=True,
                 help="Only this of the role's permissions, such as runs:read; more than once.  [default: all]"),
    click.option("--code", "may_code", is_flag=True,
                 help="An editor that may also write jobs that run programs (jobs:code)."),
    click.option("--namespace", "namespaces", metavar="NAME", multiple=True,
                 help="Only what is in this namespace; more than once.  [default: all]"),
    click.option("--owner", metavar="NAME", default="", help="Who the jobs belong to that it makes."),
    click.option("--only-own", is_flag=True, help="Only jobs of that owner, and their runs."),
)  # fmt: skip


def with_grant(command: F) -> F:
    """`--role`, `--scope`, `--code`, `--namespace`, `--owner` and `--only-own`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def grant_of(
    role: str, scopes: Sequence[str], may_code: bool, namespaces: Sequence[str], owner: str, only_own: bool
) -> Grant:
    """The grant of these options. `DefinitionError` lists everything that is wrong."""
    return grant_in_words(
        role, scopes=scopes or None, may_code=may_code, namespaces=namespaces, owner=owner, only_own=only_own
    )


def in_words(grant: Grant) -> str:
    """A grant as one line: `editor with jobs:code, only runs:read, in ci and qa, only its own (ann)`."""
    parts = [f"{grant.role}{' with jobs:code' if grant.may_code else ''}"]
    if grant.scopes is not None:
        parts.append(f"only {' and '.join(sorted(grant.scopes))}")
    parts.append(f"in {' and '.join(grant.namespaces) or 'all namespaces'}")
    if grant.owner:
        parts.append(f"{'only its own' if grant.only_own else 'owner'} ({grant.owner})")
    return ", ".join(parts)
