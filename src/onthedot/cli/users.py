"""`onthedot users create | list | edit | password | disable | enable | rm`: manages the users of a server."""

from __future__ import annotations

import json
from typing import Any

import click

from onthedot.access import users as accounts
from onthedot.access.permissions import check_name
from onthedot.access.users import LONGEST_PASSWORD, User, check_password, list_users
from onthedot.cli.audit import record_change
from onthedot.cli.connect import read_store, write_store
from onthedot.cli.errors import BadInput, Command, Group, on_this_store
from onthedot.cli.keys import grant_of, grant_text, with_grant
from onthedot.cli.options import read_secret, store_url, with_debug, with_json, with_store, with_utc
from onthedot.cli.terminal import echo_table, in_zone, moment
from onthedot.clock import SystemClock
from onthedot.observe.formats import iso
from onthedot.stores.protocol import Store


@click.group(cls=Group)
def users() -> None:
    """Manage the people who sign in to a server with a name and a password. Programs use keys ('onthedot keys').

    A user has a role. It can be limited to some permissions, some namespaces or one owner's jobs.

    \b
    Examples:
      onthedot users create ann --role editor
      onthedot users edit ann --role operator
      onthedot users password ann
      onthedot users disable ann
    """


@users.command(cls=Command, short_help="Create a user.")
@click.argument("name")
@click.argument("surplus", nargs=-1, metavar="")
@click.option("--sign-on", is_flag=True, help="No password: NAME is an e-mail address at the identity provider.")
@with_grant
@with_store
@with_json("one JSON object, without the password")
@with_debug
def create(
    name: str,
    surplus: tuple[str, ...],
    sign_on: bool,
    role: str,
    scopes: tuple[str, ...],
    may_code: bool,
    namespaces: tuple[str, ...],
    owner: str,
    only_own: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Create a user called NAME. The password is prompted for, or read from standard input. It is never an argument,
    because every user of the machine can read arguments. With --sign-on there is no password: the identity provider of
    a server with --sign-on confirms the e-mail address. Without --owner the user's jobs belong to NAME.

    \b
    Examples:
      onthedot users create ann --role editor
      pass show onthedot/ann | onthedot users create ann --namespace shop
      onthedot users create ann@example.org --role editor --sign-on
    """
    _check(name, surplus)
    name = accounts.as_address(name) if sign_on else name
    grant = grant_of(role, scopes, may_code, namespaces, owner or name, only_own)
    password = None if sign_on else _read_password(name)
    if password is not None:
        check_password(password)

    async def work(opened: Store) -> User:
        user = await accounts.create(opened, name, password, grant)
        await record_change(opened, "users.create", f"user/{user.name}", after=_as_json(user))
        return user

    user = write_store(store_url(store, db), work)
    _tell(user, f"is made: {grant_text(grant)}", as_json=as_json)


@users.command("list", cls=Command, short_help="List the users.")
@with_store
@with_utc
@with_json("a JSON array with one object per user")
@with_debug
def list_(store: str | None, db: str | None, as_json: bool) -> None:
    """List the users and their permissions. It only reads.

    \b
    Examples:
      onthedot users list
      onthedot users list --json | jq -r '.[] | select(.disabled).name'
    """
    found, now = read_store(store_url(store, db), _all), SystemClock().now()
    if as_json:
        click.echo(json.dumps([_as_json(user) for user in found], indent=2))
    elif found:
        rows = [[user.name, _state(user), grant_text(user.grant), moment(user.made_at, now)] for user in found]
        echo_table(["USER", "STATE", "MAY", in_zone("MADE", now)], rows)
    else:
        click.echo(on_this_store("there are no users; make one with 'onthedot users create NAME'"))


@users.command(cls=Command, short_help="Change a user's role, permissions, namespaces or owner.")
@click.argument("name")
@click.option("--role", metavar="ROLE", help="The role: viewer, operator, editor, admin or worker.")
@click.option("--scope", "scopes", metavar="PERMISSION", multiple=True,
              help="Only these of the role's permissions; more than once.")  # fmt: skip
@click.option("--all-scopes", is_flag=True, help="All of the role's permissions.")
@click.option("--code/--no-code", "may_code", default=None, help="Whether an editor may write jobs that run programs.")
@click.option("--namespace", "namespaces", metavar="NAME", multiple=True,
              help="Only this namespace; more than once.")  # fmt: skip
@click.option("--all-namespaces", is_flag=True, help="All namespaces.")
@click.option("--owner", metavar="NAME", help="The owner of the jobs that it creates from now on.")
@click.option("--only-own/--not-only-own", "only_own", default=None, help="Whether it sees only that owner's jobs.")
@with_store
@with_json("one JSON object, without the password")
@with_debug
def edit(
    name: str,
    scopes: tuple[str, ...],
    all_scopes: bool,
    namespaces: tuple[str, ...],
    all_namespaces: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Change the role or the limits of the user NAME. Options that are not given stay as they are; '--code' ends with
    the role editor. Open sessions change within 5 seconds. The owner of existing jobs does not change.

    \b
    Examples:
      onthedot users edit ann --role operator
      onthedot users edit ann --role editor --code --namespace shop
      onthedot users edit ann --all-namespaces --json
    """
    said = {option: value for option, value in given.items() if value is not None}
    for option, values, every, lifted in (
        ("scopes", scopes, all_scopes, None), ("namespaces", namespaces, all_namespaces, []),
    ):  # fmt: skip
        if values and every:
            raise click.UsageError(f"expected --{option[:-1]} or --all-{option}, got both; leave one out")
        if values or every:
            said[option] = list(values) or lifted
    if not said:
        raise click.UsageError("expected something to change, such as --role operator, got nothing")

    async def work(opened: Store) -> User:
        before = await accounts.get_user(opened, name)
        after = await accounts.edit(opened, name, grant=said)
        await record_change(opened, "users.change", f"user/{name}", before=_as_json(before), after=_as_json(after))
        return after

    user = write_store(store_url(store, db), work)
    _tell(user, f"is changed: {grant_text(user.grant)}", as_json=as_json)


@users.command(cls=Command, short_help="Set a new password.")
@click.argument("name")
@click.argument("surplus", nargs=-1, metavar="")
@with_store
@with_json("one JSON object, without the password")
@with_debug
def password(name: str, surplus: tuple[str, ...], store: str | None, db: str | None, as_json: bool) -> None:
    """Set a new password for the user NAME, and end its sessions. The password is prompted for, or read from standard
    input.

    \b
    Examples:
      onthedot users password ann
    """
    _check(name, surplus)
    given = _read_password(name)
    check_password(given)

    async def work(opened: Store) -> User:
        user = await accounts.set_password(opened, name, given)
        await record_change(opened, "users.password", f"user/{name}")
        return user

    _tell(write_store(store_url(store, db), work), "has another password; its sessions have ended", as_json=as_json)


@users.command(cls=Command, short_help="Disable a user.")
@click.argument("name")
@with_store
@with_json("one JSON object")
@with_debug
def disable(name: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Disable the user NAME, and end its sessions. API keys stay valid: 'onthedot keys revoke' ends them.

    \b
    Examples:
      onthedot users disable ann
    """
    user = _set_disabled(store_url(store, db), name, disabled=True)
    _tell(user, "is disabled; its sessions have ended", as_json=as_json)


@users.command(cls=Command, short_help="Enable a disabled user.")
@click.argument("name")
@with_store
@with_json("one JSON object")
@with_debug
def enable(name: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Enable the user NAME again, with the old password.

    \b
    Examples:
      onthedot users enable ann
    """
    _tell(_set_disabled(store_url(store, db), name, disabled=False), "is let in again", as_json=as_json)


@users.command(cls=Command, short_help="Remove a user.")
@click.argument("name")
@with_store
@with_json("one JSON object")
@with_debug
def rm(name: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Remove the user NAME, and end its sessions. The audit keeps what it did.

    \b
    Examples:
      onthedot users rm ann
    """

    async def work(opened: Store) -> User:
        user = await accounts.remove(opened, name)
        await record_change(opened, "users.delete", f"user/{name}", before=_as_json(user))
        return user

    _tell(write_store(store_url(store, db), work), "is removed", as_json=as_json)


def _set_disabled(url: str, name: str, *, disabled: bool) -> User:
    async def work(opened: Store) -> User:
        before = await accounts.get_user(opened, name)
        after = await accounts.set_disabled(opened, name, disabled=disabled)
        verb = "users.disable" if disabled else "users.enable"
        await record_change(opened, verb, f"user/{name}", before=_as_json(before), after=_as_json(after))
        return after

    return write_store(url, work)


async def _all(store: Store) -> list[User]:
    found: list[User] = []
    while page := await list_users(store, after=found[-1].name if found else "", limit=1_000):
        found += page
    return found


def _check(name: str, surplus: tuple[str, ...]) -> None:
    """Refuse a wrong name before the command asks for a password or opens a store. Surplus arguments are not repeated:
    they may be passwords."""
    if surplus:
        raise BadInput(
            "NAME: expected a name alone, got more; the password is read from standard input, because every user of "
            "the machine can read a command line: choose another password"
        )
    check_name("NAME", name)


def _state(user: User) -> str:
    return "disabled" if user.disabled else "signs on" if user.signs_on else "active"


def _tell(user: User, what: str, *, as_json: bool) -> None:
    click.echo(json.dumps(_as_json(user), indent=2) if as_json else f"user {user.name} {what}")


def _as_json(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "disabled": user.disabled,
        "sign_on": user.signs_on,
        **user.grant.as_json(),
        "made_at": iso(user.made_at),
    }


def _read_password(name: str) -> str:
    """Read a new password."""
    return read_secret("password", f"Password of {name}", most=4 * LONGEST_PASSWORD, is_new=True)
