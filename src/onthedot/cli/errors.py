"""Turns errors into one line and an exit code, with a traceback only for `--debug`.

The commands that a message suggests get the `--db` or `--store` of the current command, so that they can be copied.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, NoReturn, cast

import click

from onthedot.model.addresses import is_server
from onthedot.model.errors import (
    DefinitionError,
    OnTheDotError,
    StoreUnusable,
    UnknownHandler,
    UnknownJob,
    UnknownKey,
    UnknownSecret,
    UnknownSession,
    UnknownUser,
    did_you_mean,
)
from onthedot.observe.formats import plain
from onthedot.stores.addresses import shown_url

BROKEN, BAD_INPUT, CUT_SHORT = 1, 2, 130

_BAD_INPUT = (
    DefinitionError, UnknownJob, UnknownHandler, UnknownSecret, UnknownKey, UnknownUser, UnknownSession, StoreUnusable,
)  # fmt: skip
_DEBUG = "onthedot.debug"


class Failure(click.ClickException):
    """Something broke: `Error: …` on standard error, exit code 1."""

    exit_code = BROKEN

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(plain(line, most=2_000) for line in on_this_store(message).split("\n")))


class BadInput(Failure):
    """The input is wrong, or cannot be done: `Error: …` on standard error, exit code 2."""

    exit_code = BAD_INPUT


def remember_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """The callback of `--debug`."""
    ctx.meta[_DEBUG] = value


class Command(click.Command):
    """A command that prints each error as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Failure as failure:
            cause = failure.__cause__
            if ctx.meta.get(_DEBUG) and cause is not None:
                raise cause from None
            raise
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click handles these
        except Exception as error:
            if ctx.meta.get(_DEBUG):
                raise
            fail(error)


def fail(error: Exception) -> NoReturn:
    """Raise the error as `BadInput` or `Failure`, with text for people."""
    if isinstance(error, OnTheDotError):
        raise (BadInput if isinstance(error, _BAD_INPUT) else Failure)(str(error)) from error
    if isinstance(error, UnicodeEncodeError):
        raise BadInput(
            f"expected text, got bytes that are none: {error.object!r}; check the terminal's encoding"
        ) from error
    name = f"{type(error).__name__}: {error}"
    raise Failure(f"{name}; this is a bug in onthedot: run it again with --debug to see where") from error


class Group(click.Group):
    """A group of commands. For an unknown name it suggests the nearest."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            raise click.UsageError(f"unknown command {name!r}{did_you_mean(name, known)}", ctx)
        return super().resolve_command(ctx, args)


# ── suggested commands ───────────────────────────────────────────────────────────────────────────────────────────────


_SUGGESTED = re.compile(r"'(onthedot ([^'\n]+))'")


def on_this_store(text: str) -> str:
    """Return the text; every command that it suggests gets the `--db` or `--store` of the current command."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else {name: context.params.get(name) for name in ("db", "store")}
    said = [(name, str(value)) for name, value in given.items() if value]
    if len(said) != 1 or "'onthedot " not in text:
        return text
    [(option, value)] = said
    return _SUGGESTED.sub(lambda found: f"'{found[1]}{_store_of(found[2], option, value)}'", text)


def _store_of(arguments: str, option: str, value: str) -> str:
    """` --db FILE`, for a command that has this option and does not use it yet; else nothing."""
    from onthedot.cli.main import cli

    words, command = arguments.split(), cast(click.Command, cli)
    if "--db" in words or "--store" in words:
        return ""
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        if found is None:
            return ""
        command = found
    takes = {parameter.name for parameter in command.params}
    server = option == "store" and is_server(value)
    if option not in takes or (server and "key_file" not in takes):
        return ""
    return f" --{option} {_quoted(value if option == 'db' else shown_url(value))}"


def _quoted(value: str) -> str:
    """Quote a word for a shell, with double quotes: the command around it has single quotes.

    >>> print(_quoted("shop.db"), _quoted("my jobs.db"), _quoted("a$b.db"))
    shop.db "my jobs.db" "a\\$b.db"
    """
    return value if shlex.quote(value) == value else '"' + re.sub(r'(["$`\\])', r"\\\1", value) + '"'
