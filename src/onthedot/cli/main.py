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
    """One command: the module that has it, and its line in `--help`."""

    module: str
    summary: str


COMMANDS = {
    # run
    "up": Entry("up", "Run a program's jobs, or sample ones, and tell what happens."),
    "worker": Entry("up", "Execute the runs of stored jobs, or of a program's."),
    "server": Entry("up", "Plan the runs of all stored jobs, and serve the HTTP API."),
    "store": Entry("store", "Migrate a store, or check it."),
    # files of jobs
    "check": Entry("files", "Check files of jobs: every mistake at once, with its place."),
    "lint": Entry("schedules", "Tell what is odd about a schedule, a file, or the stored jobs."),
    "plan": Entry("plan", "Tell what a file of jobs would change, in text and in time."),
    "apply": Entry("plan", "Store the jobs of a file."),
    "export": Entry("files", "Write stored jobs as YAML, JSON or CSV."),
    "import": Entry("files", "Make jobs of crontabs, timers, CronJobs or tables."),
    # read
    "next": Entry("schedules", "Show what a schedule means and its next instants."),
    "simulate": Entry("simulation", "Play a program's schedules in advance, without running its code."),
    "jobs": Entry("jobs", "List the stored jobs: schedule, next instant, last run."),
    "upcoming": Entry("schedules", "List what starts next, over all jobs in the order of time."),
    "runs": Entry("runs", "List runs: what waits, what runs, what became of the rest."),
    "skips": Entry("slots", "List slots that did not run, and why."),
    "show": Entry("runs", "Show one run: why it waits, and each of its attempts."),
    "dead": Entry("dead", "Look at runs that have failed for good; replay or discard them."),
    "logs": Entry("logs", "Show what a run has said; follow it while it runs."),
    "artifacts": Entry("artifacts", "List or fetch the files that a run has left."),
    "nodes": Entry("nodes", "List the nodes: state, who leads, seats, queues, labels."),
    "queues": Entry("queues", "List the queues: who waits, what runs, what is paused."),
    "audit": Entry("audit", "Show who changed what, or check that nothing of it was changed."),
    "doctor": Entry("doctor", "Tell what this machine offers, what is missing, and what to do."),
    "openapi": Entry("openapi", "Print the OpenAPI document of the HTTP API."),
    "completion": Entry("main", "Print what your shell needs to complete commands."),
    # define
    "create": Entry("jobs", "Store a new job."),
    "edit": Entry("jobs", "Change a stored job, in an editor or with --set."),
    "rm": Entry("jobs", "End a job; its waiting runs are cancelled."),
    # change
    "trigger": Entry("runs", "Ask for one run of a job, now."),
    "retry": Entry("runs", "Go on where a run of steps has failed."),
    "cancel": Entry("runs", "Cancel a run, or ask it to stop."),
    "pause": Entry("jobs", "Plan and start nothing more of a job."),
    "resume": Entry("jobs", "Let a paused job go on."),
    "skip-next": Entry("slots", "Leave out the next start of a job."),
    "move-next": Entry("slots", "Run the next start of a job at another time."),
    "backfill": Entry("slots", "Run slots of a job that have passed."),
    "node": Entry("nodes", "Drain a node, or let it go on."),
    "queue": Entry("queues", "Pause, resume or share a queue."),
    "secret": Entry("secrets", "Set, list or remove secrets that are kept in the store."),
    # access
    "keys": Entry("keys", "Create, list, show or revoke API keys."),
    "users": Entry("users", "Create, list, edit, disable or remove users, or set a password."),
    "sessions": Entry("sessions", "List or end sessions, or make a link that signs you in."),
    "login": Entry("sessions", "Sign in to a server; other commands then need no key."),
    "logout": Entry("sessions", "Sign out of a server."),
    "whoami": Entry("sessions", "Tell who you are to a server, and what you may do."),
}
"""All commands, in the order of `--help`. In its module a command is the function of its name (`skip_next`)."""

_TAKEN = ("import", "next")  # names that Python uses
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
        """For a name that is a command of groups only, such as `replay`, suggest those (`dead replay`)."""
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
        """Tell where the options of commands belong."""
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
