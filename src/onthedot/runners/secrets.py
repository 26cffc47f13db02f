"""Finds the values of secrets just before a run starts. Definitions only name them, and nothing records them.

We look in the environment, in files, in the store, and at providers that the program has added, in this order. The
first that has the secret wins. One that is there and cannot be read ends the search, so that no run gets another value
by accident. No message contains a value or a part of one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from onthedot.model.errors import OnTheDotError, UnknownSecret
from onthedot.runners.task_template import NAME

LEAST, MOST = 4, 32 * 1024
"""Least characters of a secret: a shorter one could not be redacted without garbling output. And its most bytes."""

PREFIX = "OTD_SECRET_"
DIRECTORY = "OTD_SECRETS_DIR"


class Provider(Protocol):
    """A source of secrets.

    >>> class Vault:
    ...     name = "the vault"
    ...     async def get(self, namespace: str, name: str) -> str | None:
    ...         return {"DB": "a password"}.get(name) if namespace == "default" else None
    >>> await Secrets([Vault()]).resolve(["DB"])
    {'DB': 'a password'}
    """

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    async def get(self, namespace: str, name: str) -> str | None:
        """The value; None if there is no secret of that name for that namespace. `UnknownSecret`, with what to do and
        without the value, if there is one that cannot be read."""
        ...


class Secrets:
    """The secrets of all providers, in order."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = tuple(providers)

    async def resolve(self, names: Iterable[str], *, namespace: str = "default") -> dict[str, str]:
        """The values of these secrets, for jobs of this namespace. `UnknownSecret` names every problem."""
        found: dict[str, str] = {}
        problems: list[str] = []
        for name in sorted(set(names)):
            try:
                found[name] = await self._find(namespace, name)
            except UnknownSecret as error:
                problems.append(str(error))
        if problems:
            raise UnknownSecret("; ".join(problems))
        return found

    async def _find(self, namespace: str, name: str) -> str:
        check_name(name)
        for provider in self._providers:
            value = await _ask(provider, namespace, name)
            if value is not None:
                check_value(name, value)
                return value
        looked = ", ".join(provider.name for provider in self._providers) or "nowhere"
        raise UnknownSecret(
            f"secret {name}: expected one of that name for namespace {namespace!r}, found none (looked in: {looked}); "
            f"set it with 'onthedot secret set {name}', or as {PREFIX}{name} for the default namespace"
        )


async def _ask(provider: Provider, namespace: str, name: str) -> str | None:
    try:
        return await provider.get(namespace, name)
    except OnTheDotError:
        raise
    except Exception as error:  # noqa: BLE001 - it may be anybody's, and what it says may hold the value
        raise UnknownSecret(f"secret {name}: {provider.name} failed with {type(error).__name__}; look at it") from None


def check_name(name: str) -> None:
    """Raise `UnknownSecret` if this cannot be the name of a secret."""
    if not NAME.fullmatch(name):
        raise UnknownSecret("secret: expected a name of letters, digits and '_', not a digit first")


def check_value(name: str, value: object) -> None:
    """Raise `UnknownSecret` if this cannot be the value of a secret.

    >>> check_value("PIN", "123")
    Traceback (most recent call last):
    onthedot.model.errors.UnknownSecret: secret PIN: expected at least 4 characters, got fewer; choose a longer one
    """
    if not isinstance(value, str):
        raise UnknownSecret(f"secret {name}: expected text, got {type(value).__name__}")
    if "\0" in value or not _is_utf8(value):
        raise UnknownSecret(f"secret {name}: expected UTF-8 text without a zero character; keep bytes as base64")
    if len(value) < LEAST:
        raise UnknownSecret(f"secret {name}: expected at least {LEAST} characters, got fewer; choose a longer one")
    if len(value.encode()) > MOST:
        raise UnknownSecret(f"secret {name}: expected at most {MOST} bytes, got more; keep it elsewhere")


def _is_utf8(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


# ── the environment ──────────────────────────────────────────────────────────────────────────────────────────


class EnvironmentSecrets:
    """Secrets in variables `OTD_SECRET_NAME`, for one namespace.

    >>> await EnvironmentSecrets({"OTD_SECRET_DB": "a password"}).get("default", "DB")
    'a password'
    """

    name = "the environment"

    def __init__(self, environment: Mapping[str, str], *, namespace: str = "default") -> None:
        self._environment = environment
        self._namespace = namespace

    async def get(self, namespace: str, name: str) -> str | None:
        return self._environment.get(PREFIX + name) if namespace == self._namespace else None


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


class SecretFiles:
    """A directory with one file for each secret of the default namespace, and a folder for each other namespace. A
    file must be its owner's alone (mode 0600 or less); links are not followed. One line end at its end is left out."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    @property
    def name(self) -> str:
        return f"the directory {self._directory}"

    async def get(self, namespace: str, name: str) -> str | None:
        return await asyncio.to_thread(self._read, namespace, name)

    def _read(self, namespace: str, name: str) -> str | None:
        if "/" in namespace or namespace in ("", ".", ".."):
            return None
        folders = [] if namespace == "default" else [namespace]
        try:
            opened = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UnknownSecret(
                f"secret {name}: expected the directory {self._directory} ({DIRECTORY}), got: {error.strerror}"
            ) from None
        try:
            for folder in folders:
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
                os.close(opened)
                opened = inner
            return read_private(name, what=f"secret {name}", folder=opened)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnknownSecret(f"secret {name}: expected to read its file, got: {error.strerror}") from None
        finally:
            os.close(opened)


def read_private(path: str, *, what: str, folder: int | None = None) -> str:
    """The text of a file that no other user may read, without its last line end. `UnknownSecret` if others may read it,
    or if it is no plain file. `FileNotFoundError` if there is none."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        opened = os.open(path, flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnknownSecret(f"{what}: expected a file, got a link to one; put the file itself there") from None
        raise
    with open(opened, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UnknownSecret(f"{what}: expected a plain file, got something else")
        if found.st_mode & 0o077:
            mode = f"{stat.S_IMODE(found.st_mode):04o}"
            raise UnknownSecret(
                f"{what}: expected a file of mode 0600, got {mode}; 'chmod 600' it, and change its value"
            )
        if found.st_uid not in (0, os.geteuid()):
            raise UnknownSecret(f"{what}: expected a file of this user or of root, got one of user {found.st_uid}")
        content = file.read(4 * MOST + 1)
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UnknownSecret(f"{what}: expected UTF-8 text, got other bytes; keep bytes as base64") from None
