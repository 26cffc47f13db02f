"""The text of a key: it has exactly one form, and neither its id nor its proof reveals the secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.access.credentials import Credential, Kind, draw, hidden, is_id, read
from onthedot.ids import RandomIds

KINDS: list[Kind] = ["key", "session", "token", "page", "csrf"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_credential_is_read_back_and_matches_its_proof(kind: Kind):
    drawn = draw(kind, RandomIds())
    again = read(drawn.text)
    assert again == drawn
    assert again is not None
    assert again.proves(drawn.proof)
    assert is_id(drawn.id)
    assert len(drawn.secret) * 4 == 256
    assert drawn.secret not in f"{drawn} {drawn!r} {drawn.proof} {hidden(drawn.text)}"


def test_credentials_are_unique():
    drawn = [draw("key", RandomIds()) for _ in range(100)]
    assert len({one.id for one in drawn}) == len({one.secret for one in drawn}) == 100


@given(st.sampled_from(KINDS), st.text(max_size=120))
def test_other_texts_are_no_credentials(kind: Kind, text: str):
    good = draw(kind, RandomIds())
    found = read(text)
    assert found is None or found.text == text
    for wrong in (good.text.upper(), f" {good.text}", f"{good.text}\n", good.text[:-1], good.text + "0", good.id):
        assert read(wrong) is None


@given(st.integers(0, 83), st.sampled_from("0123456789abcdef.otspd_ G\n\0é"))
def test_a_text_with_one_changed_character_does_not_match_the_proof(place: int, character: str):
    good = draw("key", RandomIds())
    changed = read(good.text[:place] + character + good.text[place + 1 :])
    assert changed is None or changed == good or not changed.proves(good.proof)


def test_a_proof_is_valid_for_one_kind_and_id():
    key = draw("key", RandomIds())
    assert not Credential("session", key.id, key.secret).proves(key.proof)
    assert not Credential("key", "0" * 15, key.secret).proves(key.proof)
    for proof in ("", "é", "\ud800", key.proof[:-1], key.secret):
        assert not key.proves(proof)
