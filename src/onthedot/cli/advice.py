"""Completes the commands that messages suggest, with the store of the current command, so that they can be copied."""

from __future__ import annotations

import re
import shlex
from typing import cast

import click

from onthedot.model.addresses import is_server
from onthedot.stores.addresses import shown_url

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
    """Quote a word for a shell, with double quotes: the command around it is in single ones.

    >>> print(_quoted("shop.db"), _quoted("my jobs.db"), _quoted("a$b.db"))
    shop.db "my jobs.db" "a\\$b.db"
    """
    return value if shlex.quote(value) == value else '"' + re.sub(r'(["$`\\])', r"\\\1", value) + '"'
