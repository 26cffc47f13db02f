"""Secrets sealed for the store: AES-256-GCM with a key that is never in it.

The name is sealed with the value, so that what is stored under one name cannot be put under another. Each sealed text
says which key opens it: keys can be replaced one by one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from onthedot.ids import RandomIds
from onthedot.model.errors import UnknownSecret
from onthedot.runners.secrets import read_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY, KEY_FILE = "OTD_SECRETS_KEY", "OTD_SECRETS_KEY_FILE"
MAKE_ONE = "make one with 'head -c 32 /dev/urandom | base64'"

_NONCE = 12


class Keys:
    """The keys that this process has, by id. The first one seals, all of them open."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = {key_id(key): key for key in keys}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Keys:
        """From `OTD_SECRETS_KEY`, or the file that `OTD_SECRETS_KEY_FILE` names: keys of 32 bytes as base64, parted by
        spaces, commas or lines. There may be none; `UnknownSecret` for what is no key."""
        text, path = environment.get(KEY), environment.get(KEY_FILE)
        if text and path:
            raise UnknownSecret(f"secrets: expected {KEY} or {KEY_FILE}, got both; unset one")
        if path:
            text = _read(path)
        return cls([_key(part) for part in (text or "").replace(",", " ").split()])

    @property
    def ids(self) -> tuple[str, ...]:
        """What they are called; the first one is that which seals."""
        return tuple(self._keys)

    def __repr__(self) -> str:
        return f"Keys({', '.join(self.ids)})"

    def seal(self, namespace: str, name: str, value: str) -> str:
        """A value as the JSON text of a document."""
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
        """The value that was sealed; `UnknownSecret` if it cannot be had: there is no way around the key."""
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
    """Which key opens a sealed text; empty if it cannot be read."""
    try:
        return _parts("", body)[0]
    except UnknownSecret:
        return ""


def key_id(key: bytes) -> str:
    """What a key is called: it tells keys apart, and nothing about them.

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
