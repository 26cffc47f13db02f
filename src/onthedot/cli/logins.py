"""Stores the keys of `onthedot login`, one for each server, in a file that only its owner can read.

    $XDG_STATE_HOME/onthedot/logins/servers.json     0600, in a folder 0700; without it below ~/.local/state

An entry belongs to one address: scheme, host, port and path. Its key is sent to no other address.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from onthedot.cli.errors import BadInput
from onthedot.client.connection import check_url
from onthedot.output.locations import state_folder

MOST = 1 << 20
_PORTS = {"http": 80, "https": 443}


class Login(NamedTuple):
    """Credentials for one server. `repr` hides the key."""

    server: str
    key: str
    kind: Literal["session", "key"]
    name: str
    expires_at: str | None

    def __repr__(self) -> str:
        return f"Login({self.server!r}, {self.kind} of {self.name!r})"


def address_of(url: str) -> str:
    """The address of an entry, in one normal form.

    >>> address_of("HTTPS://Jobs.Example.org:443/"), address_of("http://[::1]:7411/otd/")
    ('https://jobs.example.org', 'http://[::1]:7411/otd')
    """
    parts = urlsplit(check_url(url))
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def logins_file() -> Path:
    """The path of the file."""
    return state_folder() / "logins" / "servers.json"


def read_logins() -> dict[str, Login]:
    """Return all entries by address. Raise `BadInput` if others can read or change the file."""
    path = logins_file()
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"{path}: expected a file of yours with keys, but {error.strerror}") from error
    with open(file, "rb") as opened:
        _check_private(path, os.fstat(opened.fileno()))
        _check_private(path.parent, os.stat(path.parent))
        text = opened.read(MOST + 1)
    try:
        return {address: _login(address, one) for address, one in json.loads(text)["servers"].items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"{path}: expected what 'onthedot login' has written; remove it, and sign in again") from None


def _login(address: str, told: dict[str, Any]) -> Login:
    if not all(isinstance(told[name], str) for name in ("key", "kind", "name")):
        raise TypeError
    return Login(address, told["key"], told["kind"], told["name"], told["expires_at"])


def _check_private(path: Path, found: os.stat_result) -> None:
    mode, wanted = stat.S_IMODE(found.st_mode), "700" if stat.S_ISDIR(found.st_mode) else "600"
    if found.st_uid != os.geteuid():
        raise BadInput(f"{path}: expected it to be yours, got one of user {found.st_uid}; remove it, and sign in again")
    if mode & 0o077:
        raise BadInput(
            f"{path}: expected mode 0{wanted}, got {mode:04o}: others may have read its keys; "
            f"sign out ('onthedot logout --all') after 'chmod {wanted} {path}', and sign in again"
        )


def check_logins() -> None:
    """Raise `BadInput` if an entry could not be stored now."""
    with _changing(write=False):
        pass


def keep_login(login: Login) -> Login | None:
    """Store an entry. Return the one that it replaces."""
    with _changing() as logins:
        before = logins.get(login.server)
        logins[login.server] = login
    return before


def forget_login(address: str) -> None:
    """Remove the entry for this address, if there is one."""
    with _changing() as logins:
        logins.pop(address, None)


@contextlib.contextmanager
def _changing(*, write: bool = True) -> Iterator[dict[str, Login]]:
    """Provide the entries inside a context, under a lock. At its end they are written back as a whole."""
    path = logins_file()
    try:
        with _locked(path.parent):
            logins = read_logins()
            yield logins
            if write:
                _write(path, logins)
    except OSError as error:
        raise BadInput(f"{path}: expected to write it, but {error.strerror or error}") from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder, which is created if missing. Raise `BadInput` if others can use it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_private(folder, os.fstat(handle))
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(path: Path, logins: dict[str, Login]) -> None:
    told = {
        address: {"key": one.key, "kind": one.kind, "name": one.name, "expires_at": one.expires_at}
        for address, one in sorted(logins.items())
    }
    handle, written = tempfile.mkstemp(dir=path.parent, prefix=".servers-")  # creates it with mode 0600
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "servers": told}, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(written, path)
    except BaseException:  # also Ctrl-C: remove the copy of the keys, and raise again
        Path(written).unlink(missing_ok=True)
        raise
