"""`onthedot secret set | list | rm | rotate`: manages the secrets in the store, which are encrypted."""

from __future__ import annotations

import json
import os
import sys

import click

from onthedot.cli.audit import record_change
from onthedot.cli.connect import read_store, write_store
from onthedot.cli.errors import BadInput, Command, Group
from onthedot.cli.options import store_url, with_debug, with_json, with_store, with_utc
from onthedot.cli.terminal import echo_table, in_zone, moment
from onthedot.clock import SystemClock
from onthedot.define.check import is_name
from onthedot.observe.formats import count, iso
from onthedot.runners.secrets import MOST, Keys, StoredSecret, StoredSecrets, check_name
from onthedot.stores.protocol import Store


@click.group(cls=Group)
def secret() -> None:
    """Manage encrypted values in the store. Jobs use them by name: '${{ secrets.NAME }}' in a job's env or headers.

    The encryption key is in OTD_SECRETS_KEY, or in the file that OTD_SECRETS_KEY_FILE names: 32 bytes as base64. Every
    worker that runs such jobs needs the same key. The key is never in the store. Of several keys the first encrypts,
    and all of them decrypt.

    \b
    Examples:
      onthedot secret set DB_PASSWORD
      onthedot secret set DB_PASSWORD < password.txt
      onthedot secret list
    """


@secret.command("set", cls=Command, short_help="Store or replace a secret.")
@click.argument("name")
@click.argument("surplus", nargs=-1, metavar="")
@click.option("--namespace", metavar="NAME", default="default", show_default=True, help="Whose jobs may use it.")
@with_store
@with_json("one JSON object, without the value")
@with_debug
def set_(name: str, surplus: tuple[str, ...], namespace: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Store the secret NAME, or replace it. The value is prompted for, or read from standard input. It is never an
    argument, because every user of the machine can read arguments.

    \b
    Examples:
      onthedot secret set DB_PASSWORD
      openssl rand -hex 16 | onthedot secret set API_KEY --namespace team
    """
    if surplus or "=" in name:  # click would print the surplus argument
        raise BadInput(
            "NAME: expected a name alone, got more; the value is read from standard input, because every user of the "
            "machine can read a command line: choose another value"
        )
    _check(name, namespace)
    value = _read_value(name)

    async def work(opened: Store) -> bool:
        replaced = await _secrets(opened).set(namespace, name, value)
        await record_change(opened, "secrets.set", f"secret/{namespace}/{name}", namespace=namespace)
        return replaced

    replaced = write_store(store_url(store, db), work)
    if as_json:
        click.echo(json.dumps({"namespace": namespace, "name": name, "replaced": replaced}, indent=2))
    else:
        click.echo(f"secret {name} {'is another one now' if replaced else 'is stored'}, for jobs of {namespace}")


@secret.command("list", cls=Command, short_help="List the names, never the values.")
@click.option("--namespace", metavar="NAME", help="Only those of this namespace.  [default: all]")
@with_store
@with_utc
@with_json("a JSON array with one object per secret, without the values")
@with_debug
def list_(namespace: str | None, store: str | None, db: str | None, as_json: bool) -> None:
    """List the secrets: their names, when they were set, and which key decrypts them. It only reads, and needs no key.

    \b
    Examples:
      onthedot secret list
      onthedot secret list --json | jq -r '.[].name'
    """

    async def work(opened: Store) -> list[StoredSecret]:
        return [one for one in await _names(opened) if namespace in (None, one.namespace)]

    found, now = read_store(store_url(store, db), work), SystemClock().now()
    if as_json:
        click.echo(json.dumps([{**one._asdict(), "set_at": iso(one.set_at)} for one in found], indent=2))
    elif found:
        rows = [[one.namespace, one.name, one.key or "unreadable", moment(one.set_at, now)] for one in found]
        echo_table(["NAMESPACE", "NAME", "KEY", in_zone("SET", now)], rows)
    else:
        click.echo("the store has no secrets")


@secret.command(cls=Command, short_help="Remove a secret.")
@click.argument("name")
@click.option("--namespace", metavar="NAME", default="default", show_default=True, help="The secret's namespace.")
@with_store
@with_json("one JSON object")
@with_debug
def rm(name: str, namespace: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Remove the secret NAME. Runs that need it fail from now on, with an error that names it.

    \b
    Examples:
      onthedot secret rm DB_PASSWORD
    """
    _check(name, namespace)

    async def work(opened: Store) -> None:
        await _without_keys(opened).remove(namespace, name)
        await record_change(opened, "secrets.remove", f"secret/{namespace}/{name}", namespace=namespace)

    write_store(store_url(store, db), work)
    if as_json:
        click.echo(json.dumps({"namespace": namespace, "name": name}, indent=2))
    else:
        click.echo(f"secret {name} of {namespace} is removed")


@secret.command(cls=Command, short_help="Encrypt every secret with the first key.")
@with_store
@with_json("one JSON object")
@with_debug
def rotate(store: str | None, db: str | None, as_json: bool) -> None:
    """Encrypt every secret with the first key. To replace a key: give all workers the new key and the old key, in this
    order; rotate; then remove the old key.

    \b
    Examples:
      OTD_SECRETS_KEY="$NEW $OLD" onthedot secret rotate
    """

    async def work(opened: Store) -> int:
        changed = await _secrets(opened).reseal()
        await record_change(opened, "secrets.rotate", "secrets", after={"changed": changed})
        return changed

    changed = write_store(store_url(store, db), work)
    click.echo(json.dumps({"changed": changed}, indent=2) if as_json else f"{count(changed, 'secret')} sealed anew")


def _secrets(store: Store) -> StoredSecrets:
    return StoredSecrets(store.documents, Keys.of(os.environ))


def _without_keys(store: Store) -> StoredSecrets:
    """Secrets whose names can be listed and removed; without keys no value can be read."""
    return StoredSecrets(store.documents, Keys([]))


async def _names(store: Store) -> list[StoredSecret]:
    return await _without_keys(store).list()


def _check(name: str, namespace: str) -> None:
    """Refuse wrong names before the command asks for a value or opens a store."""
    check_name(name)
    if not is_name(namespace):
        raise BadInput(f"--namespace: expected letters, digits, '_', '-', '.' or ':', got {namespace!r}")


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        value: str = click.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True)
        return value
    content = sys.stdin.buffer.read(4 * MOST)
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise BadInput("value: expected UTF-8 text, got other bytes; keep bytes as base64") from None
