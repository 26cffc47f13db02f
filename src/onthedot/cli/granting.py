"""What `onthedot keys` and `onthedot users` share: options that say what is given, and the audit of what was done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onthedot.cli.errors import BadInput

if TYPE_CHECKING:
    from onthedot.access.grants import Grant
    from onthedot.stores.protocol import Store

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
    """`--role`, `--scope`, `--code`, `--namespace`, `--owner` and `--only-own`: what is given."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def grant_of(
    role: str, scopes: Sequence[str], may_code: bool, namespaces: Sequence[str], owner: str, only_own: bool
) -> Grant:
    """What was said; `DefinitionError` with all that is wrong."""
    from onthedot.access.grants import grant_in_words

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


async def audit(
    store: Store, verb: str, object: str, *, before: Any = None, after: Any = None, namespace: str = ""
) -> None:
    """Record what was done here. Whoever has the store's URL is `local`; the machine and its user say more."""
    from onthedot.access.audit import record
    from onthedot.access.audit_recorder import entry_of

    await record(store, entry_of("command line", verb, object, before=before, after=after, namespace=namespace))


def read_password(name: str) -> str:
    """A new password of a user."""
    from onthedot.access.passwords import MOST

    return read_secret("password", f"Password of {name}", most=4 * MOST, is_new=True)


def read_secret(what: str, prompt: str, *, most: int, is_new: bool = False) -> str:
    """Asked for on a terminal, read from standard input elsewhere: one line, or the same line twice, as scripts send it
    that were written for the terminal. Never an argument, which everybody could read. A new secret is typed twice, and
    whoever stores it says what it must be."""
    if sys.stdin.isatty():
        typed: str = click.prompt(prompt, hide_input=True, confirmation_prompt=is_new)
        return typed
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise BadInput(f"{what}: expected at most {most} bytes on standard input, got more")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{what}: expected UTF-8 text on standard input, got other bytes") from None
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if len(lines) > 2 or lines[0] != lines[-1]:
        told = "different lines" if len(lines) == 2 else f"{len(lines)} lines"
        raise BadInput(f"{what}: expected one line on standard input, or the same line twice, got {told}")
    if not lines[0] and not is_new:
        raise BadInput(f"{what}: expected it on standard input, got nothing")
    return lines[0]
