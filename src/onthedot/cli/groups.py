"""A group of commands that knows which one a misspelt name was meant to be."""

from __future__ import annotations

import click

from onthedot.model.errors import did_you_mean


class Group(click.Group):
    """Refuses a name that is none of its commands, with the nearest."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            raise click.UsageError(f"unknown command {name!r}{did_you_mean(name, known)}", ctx)
        return super().resolve_command(ctx, args)
