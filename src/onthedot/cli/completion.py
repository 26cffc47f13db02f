"""`onthedot completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from onthedot.cli.errors import Command
from onthedot.cli.options import with_debug

SHELLS = ("bash", "zsh", "fish")
ASKED_BY = "_ONTHEDOT_COMPLETE"  # the variable by which the shell asks us


@click.command(cls=Command, short_help="Print what your shell needs to complete commands.")
@click.argument("shell", type=click.Choice(SHELLS))
@with_debug
def command(shell: str) -> None:
    """Print a script for SHELL that completes the commands and options of onthedot.

    \b
    Examples:
      onthedot completion fish > ~/.config/fish/completions/onthedot.fish
      eval "$(onthedot completion bash)"                  # in ~/.bashrc
      eval "$(onthedot completion zsh)"                   # in ~/.zshrc
    """
    from onthedot.cli.main import cli

    complete = get_completion_class(shell)
    if complete is None:
        raise AssertionError(f"click completes for {SHELLS}, and not for {shell!r}")
    script = complete(cli, {}, "onthedot", ASKED_BY)
    click.echo(script.source_template % script.source_vars())
