"""The root of the command line: the table of commands, and the entry point of `onthedot` and `otd`."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from onthedot.cli.errors import Command, Group
from onthedot.cli.node_process import signals
from onthedot.cli.options import with_debug, with_utc

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """One command: its module, and its line in `--help`."""

    module: str
    summary: str


COMMANDS = {
    # run
    "up": Entry("up", "Run a program's jobs, or sample jobs, and print what happens."),
    "worker": Entry("up", "Execute runs of stored jobs, or of a program's jobs."),
    "server": Entry("up", "Plan the runs of all stored jobs, and serve the HTTP API."),
    "store": Entry("store", "Migrate a store, or check it."),
    # files of jobs
    "check": Entry("files", "Check files of jobs: report every mistake with its line."),
    "lint": Entry("schedules", "Report what looks wrong in a schedule, a file, or the stored jobs."),
    "plan": Entry("plan", "Show what a file of jobs would change: the jobs and their starts."),
    "apply": Entry("plan", "Store the jobs of a file."),
    "export": Entry("files", "Write stored jobs as YAML, JSON or CSV."),
    "import": Entry("files", "Convert crontabs, systemd timers, CronJobs or CSV to jobs."),
    # read
    "next": Entry("schedules", "Show what a schedule means, and its next times."),
    "simulate": Entry("simulation", "Simulate a program's schedules without running its code."),
    "jobs": Entry("jobs", "List the stored jobs: schedule, next start, last run."),
    "upcoming": Entry("schedules", "List the next starts of all jobs."),
    "runs": Entry("runs", "List runs: running, waiting and finished."),
    "skips": Entry("slots", "List slots that did not run, and why."),
    "show": Entry("runs", "Show one run: why it waits, and each of its attempts."),
    "dead": Entry("dead", "List, replay or discard runs that failed for good."),
    "logs": Entry("logs", "Show the output of a run, or follow it."),
    "artifacts": Entry("artifacts", "List or download the files that a run has kept."),
    "nodes": Entry("nodes", "List the nodes: state, leader, seats, queues, labels."),
    "queues": Entry("queues", "List the queues: what waits, what runs, what is paused."),
    "audit": Entry("audit", "Show who changed what, or verify the record of changes."),
    "doctor": Entry("doctor", "Show what this machine offers, what is missing, how to get it."),
    "openapi": Entry("openapi", "Print the OpenAPI document of the HTTP API."),
    "completion": Entry("main", "Print a script that completes commands in your shell."),
    # define
    "create": Entry("jobs", "Store a new job."),
    "edit": Entry("jobs", "Change a stored job, in an editor or with --set."),
    "rm": Entry("jobs", "Delete a job; its waiting runs are cancelled."),
    # change
    "trigger": Entry("runs", "Start one run of a job now."),
    "retry": Entry("runs", "Continue a run of steps at the step that failed."),
    "cancel": Entry("runs", "Cancel a run, or ask it to stop."),
    "pause": Entry("jobs", "Pause a job: nothing more of it starts."),
    "resume": Entry("jobs", "Resume a paused job."),
    "skip-next": Entry("slots", "Skip the next start of a job."),
    "move-next": Entry("slots", "Run the next start of a job at another time."),
    "backfill": Entry("slots", "Run past slots of a job."),
    "node": Entry("nodes", "Drain a node, or end the drain."),
    "queue": Entry("queues", "Pause, resume or share a queue."),
    "secret": Entry("secrets", "Set, list or remove secrets in the store."),
    # access
    "keys": Entry("keys", "Create, list, show or revoke API keys."),
    "users": Entry("users", "Create, list, edit, disable or remove users, or set a password."),
    "sessions": Entry("sessions", "List or end sessions, or make a link that signs you in."),
    "login": Entry("sessions", "Sign in to a server; other commands then need no key."),
    "logout": Entry("sessions", "Sign out of a server."),
    "whoami": Entry("sessions", "Show who you are on a server, and what you may do."),
}
"""All commands, in the order of `--help`. In its module a command is the function of its name (`skip_next`)."""

_TAKEN = ("import", "next")  # names that Python itself uses for other things
_OF_COMMANDS = ("--db", "--store", "--json", "--namespace", "--key-file", "--debug")


class Commands(Group):
    """Imports the module of a command when that command is called or completed. `--help` needs the table only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        entry = COMMANDS[cmd_name]
        module = importlib.import_module(f"onthedot.cli.{entry.module}")
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(module, f"{name}_" if name in _TAKEN else name)
        command.short_help = entry.summary
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. If only groups have a command of this name, such as `replay`, suggest those (`dead
        replay`)."""
        name = args[0]
        if name not in COMMANDS:
            groups = {group: self.get_command(ctx, group) for group in COMMANDS}
            inside = [f"'{group} {name}'" for group, one in groups.items() if name in getattr(one, "commands", ())]
            if inside:
                raise click.UsageError(f"unknown command {name!r}, did you mean {' or '.join(inside)}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If an option belongs to a command, the error shows where to put it."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in _OF_COMMANDS:
                option = error.option_name
                raise click.UsageError(f"put {option} behind the command: onthedot runs {option} …", ctx) from None
            raise


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try it: 'onthedot up' in an empty directory; 'onthedot jobs' and 'onthedot runs' in another terminal.",
)
@with_utc
@click.version_option(package_name="onthedot", prog_name="onthedot", message="%(prog)s %(version)s")
def cli() -> None:
    """Every job, on the dot, once."""


SHELLS = ("bash", "zsh", "fish")
ASKED_BY = "_ONTHEDOT_COMPLETE"  # the variable with which the shell calls the completion


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@with_debug
def completion(shell: str) -> None:
    """Print a script for SHELL that completes the commands and options of onthedot.

    \b
    Examples:
      onthedot completion fish > ~/.config/fish/completions/onthedot.fish
      eval "$(onthedot completion bash)"                  # in ~/.bashrc
      eval "$(onthedot completion zsh)"                   # in ~/.zshrc
    """
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        raise AssertionError(f"click completes for {SHELLS}, and not for {shell!r}")
    script = complete(cli, {}, "onthedot", ASKED_BY)
    click.echo(script.source_template % script.source_vars())


def main() -> None:
    """The entry point of `onthedot` and `otd`."""
    if sys.argv[1:2] in (["up"], ["worker"], ["server"]):
        signals.install()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # escape what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="onthedot")
