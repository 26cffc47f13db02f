"""Finds the values of secrets just before a run starts, and keeps secrets in the store.

Definitions only name secrets, and nothing records their values. We search in this order: the environment, files, the
store, and providers that the program has added. The first source that has the secret wins. If the secret cannot be read
there, the search ends, so that no run gets another value by accident. No message contains a value or a part of one.

The store has secrets sealed with AES-256-GCM, and never the key. Each is a document of the kind `secret`, by namespace
and name. The name is sealed with the value, so that a sealed text cannot be moved to another name. Each sealed text
names the key that opens it: keys can be replaced one by one.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import hashlib
import json
import os
import stat
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.ids import RandomIds
from onthedot.model.errors import OnTheDotError, UnknownSecret, did_you_mean
from onthedot.runners.task_template import NAME
from onthedot.stores.documents import Document, Documents

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


LEAST, MOST = 4, 32 * 1024
"""The fewest characters and the most bytes of a secret. Redacting a shorter secret would garble output."""

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
        """Its name in error messages."""
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
    except Exception as error:  # noqa: BLE001 - the error of a user's provider may contain the value
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


# ── secrets in the store ────────────────────────────────────────────────────────────────────────────────────────────


KIND = "secret"
_PAGE = 100
_TRIES = 10


class StoredSecret(NamedTuple):
    """A stored secret without its value."""

    namespace: str
    name: str
    key: str
    set_at: Micros


class StoredSecrets:
    """The secrets of a store. Setting and reading needs the keys; listing names does not."""

    name = "the store"

    def __init__(self, store: Documents, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def get(self, namespace: str, name: str) -> str | None:
        """See `Provider`. Raise `UnknownSecret` if the secret is stored but this process does not have its key."""
        found = await self._store.get_document(KIND, _id(namespace, name))
        return None if found is None else self._keys.unseal(namespace, name, found.body)

    async def set(self, namespace: str, name: str, value: str) -> bool:
        """Store a value. Return whether there was one before. If two calls run at once, the last one wins."""
        check_name(name)
        check_value(name, value)
        body = self._keys.seal(namespace, name, value)
        for _ in range(_TRIES):
            found = await self._store.get_document(KIND, _id(namespace, name))
            put = await self._store.put_document(
                KIND, _id(namespace, name), body, version=0 if found is None else found.version
            )
            if put.accepted:
                return found is not None
        raise _crowded(name)

    async def remove(self, namespace: str, name: str) -> None:
        """Remove a secret. `UnknownSecret` if there is none."""
        for _ in range(_TRIES):
            found = await self._store.get_document(KIND, _id(namespace, name))
            if found is None:
                known = [one.name for one in await self.list() if one.namespace == namespace]
                raise UnknownSecret(
                    f"secret {name}: expected one in namespace {namespace!r}, there is none{did_you_mean(name, known)}"
                )
            if await self._store.delete_document(KIND, found.id, version=found.version):
                return
        raise _crowded(name)

    async def list(self) -> list[StoredSecret]:
        """Return all stored secrets, ordered by namespace and name."""
        return [
            StoredSecret(*_names(document), key_of(document.body), document.written_at)
            async for document in self._documents()
        ]

    async def reseal(self) -> int:
        """Seal all secrets with the first key. Returns how many had another key. Skips a secret that is set meanwhile,
        because its key is new."""
        changed = 0
        async for document in self._documents():
            if key_of(document.body) in self._keys.ids[:1]:
                continue
            namespace, name = _names(document)
            body = self._keys.seal(namespace, name, self._keys.unseal(namespace, name, document.body))
            put = await self._store.put_document(KIND, document.id, body, version=document.version)
            changed += put.accepted
        return changed

    async def _documents(self) -> AsyncIterator[Document]:
        after = ""
        while page := await self._store.list_documents(KIND, after=after, limit=_PAGE):
            for document in page:
                yield document
            after = page[-1].id


def _id(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _names(document: Document) -> tuple[str, str]:
    namespace, _, name = document.id.rpartition("/")
    return namespace, name


def _crowded(name: str) -> OnTheDotError:
    return OnTheDotError(f"secret {name}: others changed it at the same time; try again")


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────


KEY, KEY_FILE = "OTD_SECRETS_KEY", "OTD_SECRETS_KEY_FILE"
MAKE_ONE = "make one with 'head -c 32 /dev/urandom | base64'"

_NONCE = 12


class Keys:
    """The keys of this process, by id. The first key seals. All keys can open."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = {key_id(key): key for key in keys}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Keys:
        """The keys in `OTD_SECRETS_KEY`, or in the file that `OTD_SECRETS_KEY_FILE` names: 32 bytes each as base64,
        separated by spaces, commas or lines. There may be none. `UnknownSecret` for anything else."""
        text, path = environment.get(KEY), environment.get(KEY_FILE)
        if text and path:
            raise UnknownSecret(f"secrets: expected {KEY} or {KEY_FILE}, got both; unset one")
        if path:
            text = _read(path)
        return cls([_key(part) for part in (text or "").replace(",", " ").split()])

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the keys. The first one seals."""
        return tuple(self._keys)

    def __repr__(self) -> str:
        return f"Keys({', '.join(self.ids)})"

    def seal(self, namespace: str, name: str, value: str) -> str:
        """Seal a value. Returns the JSON text of its document."""
        if not self._keys:
            raise UnknownSecret(
                f"secret {name}: expected a key in {KEY} or {KEY_FILE}, got none; {MAKE_ONE}, "
                "and give the same to every worker"
            )
        key = self.ids[0]
        nonce = bytes.fromhex(RandomIds().token())[:_NONCE]
        sealed = _cipher(self._keys[key]).encrypt(nonce, value.encode(), _bound(namespace, name, key))
        return json.dumps({"key": key, "sealed": base64.b64encode(nonce + sealed).decode()})

    def unseal(self, namespace: str, name: str, body: str) -> str:
        """The value that was sealed. `UnknownSecret` without its key, or if the text was changed."""
        key, sealed = _parts(name, body)
        if key not in self._keys:
            have = f"only {', '.join(self.ids)}" if self._keys else "none"
            raise UnknownSecret(
                f"secret {name}: it is sealed with key {key}, expected that in {KEY} or {KEY_FILE}, got {have}; "
                "add the key, or set the secret again"
            )
        cipher = _cipher(self._keys[key])
        from cryptography.exceptions import InvalidTag  # installed, because there is a cipher

        try:
            return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _bound(namespace, name, key)).decode()
        except (InvalidTag, ValueError):
            raise UnknownSecret(
                f"secret {name}: expected what was sealed with key {key}, got something else: it was changed, "
                "or sealed under another name; set the secret again"
            ) from None


def key_of(body: str) -> str:
    """The id of the key that opens a sealed text; empty if the text cannot be read."""
    try:
        return _parts("", body)[0]
    except UnknownSecret:
        return ""


def key_id(key: bytes) -> str:
    """The id of a key. It distinguishes keys, and reveals nothing about them.

    >>> key_id(bytes(32))
    '868bb8b48f7e'
    """
    return hashlib.blake2b(key, digest_size=6, person=b"onthedot secrets").hexdigest()


def _parts(name: str, body: str) -> tuple[str, bytes]:
    try:
        data = json.loads(body)
        return str(data["key"]), base64.b64decode(data["sealed"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise UnknownSecret(f"secret {name}: expected a sealed text in the store, got none; set it again") from None


def _bound(namespace: str, name: str, key: str) -> bytes:
    return json.dumps(["onthedot secret", namespace, name, key]).encode()


def _key(text: str) -> bytes:
    try:
        key = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise UnknownSecret(f"secrets: expected keys of 32 bytes as base64 in {KEY} or {KEY_FILE}; {MAKE_ONE}")
    return key


def _read(path: str) -> str:
    try:
        return read_private(path, what=f"the key file {path}")
    except OSError as error:
        raise UnknownSecret(f"secrets: expected the key file {path} ({KEY_FILE}), got: {error.strerror}") from None


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise UnknownSecret(
            "secrets: expected the library that seals them, which is not installed; pip install 'onthedot[secrets]'"
        ) from None
    return AESGCM(key)
