"""Hashes passwords with argon2id, on a thread. It costs an attacker time and memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onthedot.ids import RandomIds
from onthedot.model.errors import DefinitionError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST, MOST = 8, 1_024
"""The least characters and the most bytes of a password."""


@dataclass(frozen=True, slots=True)
class Passwords:
    """The cost of a hash: RFC 9106's choice for shared machines, some 0.1 s and 64 MiB."""

    rounds: int = 3
    kibibytes: int = 65_536
    lanes: int = 4

    async def hash(self, password: str) -> str:
        """The hash to store; `DefinitionError` for a text that cannot be a password."""
        check_password(password)
        return await asyncio.to_thread(self._hasher().hash, password)

    async def matches(self, password: str, kept: str) -> bool:
        """Whether the hash is of this password. False for what cannot be a password, or is no hash."""
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            return await asyncio.to_thread(self._hasher().verify, kept, password)
        except (VerificationError, InvalidHashError, UnicodeEncodeError):
            return False

    async def nobodys(self) -> str:
        """A hash that no password matches. Comparing with it costs as much as with any other."""
        return await asyncio.to_thread(self._hasher().hash, RandomIds().token())

    def _hasher(self) -> PasswordHasher:
        try:
            from argon2 import PasswordHasher
        except ImportError:
            raise DefinitionError(
                "users: expected the library for passwords, which is not installed; pip install 'onthedot[server]'"
            ) from None
        return PasswordHasher(self.rounds, self.kibibytes, self.lanes)


PASSWORDS = Passwords()


def check_password(password: str) -> None:
    """`DefinitionError` for a text that cannot be a password. The message does not quote it.

    >>> check_password("short")
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: password: expected at least 8 characters, got fewer; choose a longer one
    """
    if len(password) < LEAST:
        raise DefinitionError(f"password: expected at least {LEAST} characters, got fewer; choose a longer one")
    if any("\ud800" <= character <= "\udfff" for character in password):
        raise DefinitionError("password: expected UTF-8 text, got other bytes")
    if len(password.encode()) > MOST:
        raise DefinitionError(f"password: expected at most {MOST} bytes, got more; choose a shorter one")
