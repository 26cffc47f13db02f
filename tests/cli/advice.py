"""Finds every command that a message of ours suggests: in strings of the source, as 'onthedot …' or `<code>`.

A suggestion must be complete, so that the reader can copy it. Words in capitals (NAME, RUN) are for the reader to fill
in; the message fills in the rest. Docstrings mention commands as well: those must only exist.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import click

from onthedot.cli.main import cli

SOURCE = Path(__file__).parents[2] / "src" / "onthedot"
FIELD = "\x00"
"""Stands for a value that an f-string fills in."""

_SUGGESTED = re.compile(r"'(onthedot(?: [^'\n]+)?)'|<code>(onthedot [^<]+)</code>|`(onthedot [^`\n]+)`")
_MENTIONED = re.compile(r"'(onthedot(?: [^'\n]+)?)'")
_EXAMPLE = re.compile(r"^ {6}(\S[^\n]*)$", re.MULTILINE)
_MAY_HAVE = re.compile(r"['`>]onthedot |^ {6}\S?.*onthedot ", re.MULTILINE)
_NOT_A_COMMAND = {"onthedot migrations "}  # the name of a lock


class Advice(NamedTuple):
    """A command and its place: suggested by a message, an example in the help of a command, or mentioned in a
    docstring. A mentioned command need not be complete."""

    where: str
    text: str
    kind: Literal["suggested", "example", "mentioned"]

    @property
    def words(self) -> list[str]:
        """Its arguments, as a shell passes them; `1` for each value that a message fills in."""
        return shlex.split(self.text.replace(FIELD, "1"))[1:]


@cache
def all_advice() -> list[Advice]:
    """All advice in the source. Files without any are not parsed, because parsing takes most of the time."""
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    return [advice for path, text in texts.items() if _MAY_HAVE.search(text) for advice in advice_in(text, path)]


def advice_in(text: str, path: Path) -> Iterator[Advice]:
    """The advice in one file."""
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = {id(node.body[0].value) for node in nodes if _has_docstring(node)}  # type: ignore[attr-defined]
    parts = {id(value) for node in nodes if isinstance(node, ast.JoinedStr) for value in node.values}
    for node in nodes:
        told = None if id(node) in parts else _told(node)
        if told is None:
            continue
        where = f"{path.relative_to(SOURCE)}:{node.lineno}"  # type: ignore[attr-defined]
        is_docstring = id(node) in docstrings
        found = _MENTIONED.findall(told) if is_docstring else ["".join(groups) for groups in _SUGGESTED.findall(told)]
        kind: Literal["suggested", "mentioned"] = "mentioned" if is_docstring else "suggested"
        yield from (Advice(where, one, kind) for one in found if one not in _NOT_A_COMMAND)
        if is_docstring and "\n    Examples:\n" in told and "/cli/" in str(path):
            examples = told.partition("\n    Examples:\n")[2]
            yield from (
                Advice(where, one, "example") for line in _EXAMPLE.findall(examples) for one in commands_in(line)
            )


def commands_in(line: str) -> Iterator[str]:
    """Our commands in a line of shell: those of a pipe one by one, without redirections.

    >>> list(commands_in("pass show ann | onthedot users create ann > 'a b' && onthedot jobs --json | jq '.[] | .x'"))
    ['onthedot users create ann', 'onthedot jobs --json']
    """
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.commenters, words.whitespace_split = "", True
    command: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set("|&;<>()"):
            if command[:1] == ["onthedot"]:
                yield shlex.join(command)
            command = []
        else:
            command.append(word)


def advice_of_page(path: Path) -> Iterator[Advice]:
    """The advice on a page of the docs: lines of shell are examples, commands in sentences are mentioned."""
    text = path.read_text()
    for block in re.findall(r"```(?:sh|console)[^\n]*\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if "onthedot " in line and "<<" not in line and line.count("'") % 2 == 0:
                commands = commands_in(line.partition(" #")[0])
                yield from (Advice(path.name, one, "example") for one in commands)
    yield from (Advice(path.name, one, "mentioned") for one in re.findall(r"`(onthedot [^`\n]+)`", text))


def _told(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else FIELD for part in node.values)
    return None


def _has_docstring(node: ast.AST) -> bool:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return False
    first = node.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)


def problem_of(advice: Advice) -> str:
    """Why the real parser refuses the command; empty if it accepts it."""
    command: click.Command = cli
    words, context = advice.words, click.Context(cli, info_name="onthedot")
    while isinstance(command, click.Group):
        if not words:
            return (
                ""
                if advice.kind == "mentioned" or command is cli
                else f"{context.command_path}: no command of this group"
            )
        if any(words[0] in parameter.opts for parameter in command.get_params(context)):
            return ""  # --version, --help
        found = command.get_command(context, words[0])
        if found is None:
            return f"there is no command {words[0]!r} of {context.command_path}"
        command, words = found, words[1:]
        context = click.Context(command, context, info_name=command.name)
    if advice.kind == "mentioned":
        return ""
    try:
        command.make_context(command.name, words, parent=context.parent).close()
    except click.exceptions.Exit:
        return ""
    except click.UsageError as error:
        return error.format_message()
    return ""
