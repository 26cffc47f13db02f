"""Credentials: the text of a key, a session or a one-time token. Each has an id and a secret.

    otd_<id>.<secret>    a key          60 random bits of id, 256 of secret, both in hexadecimal digits
    ots_<id>.<secret>    a session
    ott_<id>.<secret>    a one-time token
    otp_<id>.<secret>    the page's cookie: valid in a cookie only
    otc_<id>.<secret>    the page's second text (`X-CSRF-Token`), with the id of the cookie

The store has a *proof*: the SHA-256 of the secret, the kind and the id. So the proof of one credential fits no other.
The secret is random, so a slow hash would add no protection. No `repr` shows a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Literal

from onthedot.ids import Ids

Kind = Literal["key", "session", "token", "page", "csrf"]

_PREFIXES: dict[Kind, str] = {"key": "otd", "session": "ots", "token": "ott", "page": "otp", "csrf": "otc"}
_KINDS: dict[str, Kind] = {prefix: kind for kind, prefix in _PREFIXES.items()}
_ID = re.compile(r"[0-9a-f]{15}")
_FORM = re.compile(rf"(ot[cdpst])_({_ID.pattern})\.([0-9a-f]{{64}})")


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential with its secret."""

    kind: Kind
    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """Return the text for the bearer. We show it once."""
        return f"{_PREFIXES[self.kind]}_{self.id}.{self.secret}"

    @property
    def proof(self) -> str:
        """The hash that the store keeps."""
        return hashlib.sha256(f"onthedot {self.kind} {self.id} {self.secret}".encode()).hexdigest()

    def proves(self, proof: str) -> bool:
        """Return whether this proof was made from this credential. The comparison takes constant time."""
        return hmac.compare_digest(self.proof.encode(), proof.encode(errors="replace"))


def draw(kind: Kind, ids: Ids) -> Credential:
    """Make a new credential.

    >>> from onthedot.ids import SeededIds
    >>> draw("key", SeededIds(7))
    Credential(kind='key', id='6513270e269e0d3')
    """
    return Credential(kind, ids.token()[:15], ids.token() + ids.token())


def read(text: str) -> Credential | None:
    """Parse a text of exactly this form; return None for any other.

    >>> read("otd_0123456789abcde." + "f" * 64)
    Credential(kind='key', id='0123456789abcde')
    >>> read("OTD_0123456789abcde." + "f" * 64), read("")
    (None, None)
    """
    found = _FORM.fullmatch(text)
    return None if found is None else Credential(_KINDS[found[1]], found[2], found[3])


def is_id(text: str) -> bool:
    """Return whether this can be an id."""
    return _ID.fullmatch(text) is not None


def hidden(text: str) -> str:
    """Return the text without the secrets of the credentials in it.

    >>> hidden(f"Bearer otd_0123456789abcde.{'f' * 64}!")
    'Bearer otd_0123456789abcde.…!'
    """
    return _FORM.sub(r"\1_\2.…", text)
