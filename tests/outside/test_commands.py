"""Attacks through the command line: every argument and option of every command treats them as plain text."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import onthedot as otd
from onthedot.cli.main import cli
from tests.outside.attacks import ATTACKS
from tests.outside.canary import check_canary

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
    """Command lines with this text in one argument or option each."""
    taking = [one for one in command.params if not getattr(one, "is_flag", False)]
    short = ["--for", "100ms"] if path in ("up", "worker", "server") else []  # else it would not end
    for target in taking:
        if target.name == "program":
            continue  # running the named program is the purpose of this argument
        given: list[str] = [*path.split(), *short]
        for one in taking:
            value = text if one is target else BENIGN.get(str(one.name), "") if one.required else ""
            if value and isinstance(one, click.Option):
                given += [one.opts[0], value]
            elif value:
                given += ["--", value] if one is target else [value]
        yield given


async def make_history() -> None:
    """Store a job and a finished run in the database of this folder."""
    sched = otd.Scheduler("sqlite:///onthedot.db")

    @sched.job
    async def echo(**given: Any) -> dict[str, Any]:
        return given

    async with sched:
        await (await sched.submit("echo", {"text": "hello"})).result(timeout="20s")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and a database, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        asyncio.run(make_history())
    (folder / "shop.py").write_text("import onthedot as otd\nsched = otd.Scheduler('sqlite:///onthedot.db')\n")
    return folder


def restore(made: Path, folder: Path) -> None:
    """Restore the database and the program."""
    for leftover in folder.glob("onthedot.db*"):
        leftover.unlink()
    shutil.copytree(made, folder, dirs_exist_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", LEAVES)
def test_every_command_treats_attacks_as_text(path: str, made: Path, tmp_path: Path):
    for attack, text in ATTACKS.items():
        restore(made, tmp_path)
        for given in lines(path, LEAVES[path], text):
            ended = CliRunner(env={"EDITOR": "true"}).invoke(cli, given, prog_name="onthedot")
            assert ended.exit_code in (0, 1, 2), given
            assert "Traceback" not in ended.output, given
            assert "this is a bug" not in ended.output, given
            assert ended.exception is None or isinstance(ended.exception, SystemExit), given
        check_canary(tmp_path, attack)
