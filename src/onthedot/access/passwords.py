"""Passwords: kept as argon2id, which costs whoever tries many of them time and memory; worked out on a thread."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onthedot.ids import RandomIds
from onthedot.model.errors import DefinitionError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST, MOST = 8, 1_024
"""A password has at least so many characters, and at most so many bytes."""


@dataclass(frozen=True, slots=True)
class Passwords:
    """How much one costs: RFC 9106's choice for machines that have other things to do; some 0.1 s and 64 MiB."""

    rounds: int = 3
    kibibytes: int = 65_536
    lanes: int = 4

    async def hash(self, password: str) -> str:
        """What is kept of a password; `DefinitionError` for what cannot be one."""
        check_password(password)
        return await asyncio.to_thread(self._hasher().hash, password)

    async def matches(self, password: str, kept: str) -> bool:
        """Whether it was this one. False for what cannot be a password, or is no hash."""
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            return await asyncio.to_thread(self._hasher().verify, kept, password)
        except (VerificationError, InvalidHashError, UnicodeEncodeError):
            return False

    async def nobodys(self) -> str:
        """A hash that no password matches, and that costs as much to compare."""
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
    """`DefinitionError` for what cannot be a password. It is never quoted.

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
