"""Passwords, without and with the library that keeps them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from onthedot.access.passwords import Passwords

CHEAP = Passwords(1, 8, 1)


async def test_only_the_same_password_matches():
    kept = await CHEAP.hash("correct horse")
    assert await CHEAP.matches("correct horse", kept)
    for other in ("", "correct horsf", "correct horse ", "CORRECT HORSE", "\ud800"):
        assert not await CHEAP.matches(other, kept)
    assert kept != await CHEAP.hash("correct horse")


@pytest.mark.parametrize("kept", ["", "x", "$argon2id$", "$argon2id$v=19$m=8,t=1,p=1$AAAA$AAAA", "correct horse"])
async def test_what_is_no_hash_is_matched_by_nothing(kept: str):
    assert not await CHEAP.matches("correct horse", kept)


async def test_nobodys_is_matched_by_nothing_and_costs_as_much():
    kept = await CHEAP.nobodys()
    assert kept.startswith("$argon2id$v=19$m=8,t=1,p=1$")
    assert not await CHEAP.matches("correct horse", kept)


@pytest.mark.slow
def test_without_the_library_the_error_names_the_extra():
    probe = """
import asyncio, sys
sys.modules["argon2"] = None
from onthedot.access.passwords import PASSWORDS
from onthedot.model.errors import DefinitionError
try:
    asyncio.run(PASSWORDS.hash("correct horse"))
except DefinitionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=30)
    assert "pip install 'onthedot[server]'" in done.stdout, done.stderr
