"""Keeps secrets in the store, sealed with AES-256-GCM and a key that is never in the store.

Each is a document of the kind `secret`, by namespace and name. The name is sealed with the value, so that a sealed text
cannot be moved to another name. Each sealed text names the key that opens it: keys can be replaced one by one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from onthedot.clock import Micros
from onthedot.ids import RandomIds
from onthedot.model.errors import OnTheDotError, UnknownSecret, did_you_mean
from onthedot.runners.secrets import check_name, check_value, read_private
from onthedot.stores.documents import Document, Documents

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


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
        """See `Provider`. `UnknownSecret` if the secret is there and this process does not have its key."""
        found = await self._store.get_document(KIND, _id(namespace, name))
        return None if found is None else self._keys.unseal(namespace, name, found.body)

    async def set(self, namespace: str, name: str, value: str) -> bool:
        """Store a value. Returns whether there was one before. Of two calls at once, the last one wins."""
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
        """All of them, by namespace and name."""
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
    return OnTheDotError(f"secret {name}: expected to be alone with it, but others change it at this moment; try again")


KEY, KEY_FILE = "OTD_SECRETS_KEY", "OTD_SECRETS_KEY_FILE"
MAKE_ONE = "make one with 'head -c 32 /dev/urandom | base64'"

_NONCE = 12


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Keys:
    """The keys of this process, by id. The first one seals, all of them open."""

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
        from cryptography.exceptions import InvalidTag  # it is there, or there were no cipher

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
    """The id of a key. It tells keys apart, and says nothing about them.

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
