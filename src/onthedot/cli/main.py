"""`onthedot`: the group of all commands."""

from __future__ import annotations

import importlib
import keyword
import sys

import click

from onthedot.cli import early
from onthedot.cli.groups import Group
from onthedot.cli.options import with_utc

COMMANDS = (
    *("up", "worker", "server", "store"),  # run
    *("check", "lint", "plan", "apply", "export", "import"),  # jobs as text
    *(
        "next",
        "simulate",
        "jobs",
        "upcoming",
        "runs",
        "skips",
        "show",
        "dead",
        "logs",
        "artifacts",
        "nodes",
        "queues",
        "audit",
        "doctor",
        "openapi",
        "completion",
    ),  # look
    *("create", "edit", "rm"),
    *(
        "trigger",
        "retry",
        "cancel",
        "pause",
        "resume",
        "skip-next",
        "move-next",
        "backfill",
        "node",
        "queue",
        "secret",
    ),  # change
    *("keys", "users", "sessions", "login", "logout", "whoami"),  # allow
)
"""Each is `command` in the file of its name (`import` in `import_.py`, `skip-next` in `skip_next.py`), in the order of
`--help`."""


_OF_COMMANDS = ("--db", "--store", "--json", "--namespace", "--key-file", "--debug")


class Commands(Group):
    """Loads a command's file when it is asked for: `--help` stays fast however much the commands need."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say where the options of commands belong."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in _OF_COMMANDS:
                option = error.option_name
                raise click.UsageError(f"put {option} behind the command: onthedot runs {option} …", ctx) from None
            raise

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name.replace("-", "_")
        module = importlib.import_module(f"onthedot.cli.{name}")
        command: click.Command = module.command
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try it: 'onthedot up' in an empty directory; 'onthedot jobs' and 'onthedot runs' in another terminal.",
)
@with_utc
@click.version_option(package_name="onthedot", prog_name="onthedot", message="%(prog)s %(version)s")
def cli() -> None:
    """Every job, on the dot, once."""


def main() -> None:
    """The entry point of `onthedot` and `otd`."""
    if sys.argv[1:2] in (["up"], ["worker"], ["server"]):
        early.install()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character must not end the program
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="onthedot")
