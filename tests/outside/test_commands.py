"""Through every argument and option of every command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import onthedot as otd
from onthedot.cli.main import cli
from tests.outside.attacks import ATTACKS

BENIGN = {
    "words": "@daily",
    "run_id": "1",
    "run_ids": "1",
    "fingerprint": "0",
    "job": "echo",
    "name": "default",
    "shares": "a=1",
    "key_id": "0123456789abcde",
    "program": "shop.py",
}
Leaf = tuple[tuple[str, ...], click.Command]


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, (*path, name))
    else:
        yield path, command


LEAVES = {" ".join(path): command for path, command in leaves(cli)}


def lines(path: str, command: click.Command, text: str) -> Iterator[list[str]]:
    """Command lines with this text in one place each."""
    taking = [one for one in command.params if not getattr(one, "is_flag", False)]
    short = ["--for", "100ms"] if path in ("up", "worker", "server") else []  # or it would stay
    for target in taking:
        if target.name == "program":
            continue  # a person names a program of their own to be run: that is what it is for
        given: list[str] = [*path.split(), *short]
        for one in taking:
            value = text if one is target else BENIGN.get(str(one.name), "") if one.required else ""
            if value and isinstance(one, click.Option):
                given += [one.opts[0], value]
            elif value:
                given += ["--", value] if one is target else [value]
        yield given


@pytest.fixture
def program(canary: None) -> None:
    Path("shop.py").write_text("import onthedot as otd\nsched = otd.Scheduler('sqlite:///onthedot.db')\n")


@pytest.fixture(autouse=True)
async def history(program: None) -> None:
    """A program and a database in the folder, with a job and a run that has ended."""
    sched = otd.Scheduler("sqlite:///onthedot.db")

    @sched.job
    async def echo(**given: Any) -> dict[str, Any]:
        return given

    async with sched:
        await (await sched.submit("echo", {"text": "hello"})).result(timeout="20s")


@pytest.mark.slow
@pytest.mark.parametrize("path", LEAVES)
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_command_takes_text_for_text(path, attack):
    for given in lines(path, LEAVES[path], ATTACKS[attack]):
        ended = CliRunner().invoke(cli, given, prog_name="onthedot")
        assert ended.exit_code in (0, 1, 2), given
        assert "Traceback" not in ended.output, given
        assert "this is a bug" not in ended.output, given
        assert ended.exception is None or isinstance(ended.exception, SystemExit), given
