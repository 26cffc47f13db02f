"""Failures that differ only in numbers, hex, quotes or paths get the same fingerprint; other failures do not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.rules.fingerprint import common_text, error_type, fingerprint


def same(one: str, two: str) -> bool:
    return fingerprint("default", "mail", one) == fingerprint("default", "mail", two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("KeyError: 'ann'", "KeyError: 'bob'"),
        ("ConnectionError: no answer from 10.0.0.7:5432", "ConnectionError: no answer from 192.168.11.200:80"),
        ("FileNotFoundError: [Errno 2] No such file: '/a/b'", "FileNotFoundError: [Errno 2] No such file: '/c d'"),
        ("OSError: /var/spool/in/1.csv is empty", "OSError: /tmp/x.csv is empty"),
        (r"OSError: C:\temp\a.txt is empty", r"OSError: D:\b.txt is empty"),
        ("E: <Thing object at 0x7f3a91bc>", "E: <Thing object at 0x7f3a00>"),
        ("E: job 550e8400-e29b-41d4-a716-446655440000", "E: job 123e4567-e89b-12d3-a456-426614174000"),
        ("E: commit deadbeef00 is gone", "E: commit 0a1b2c3d4e is gone"),
        ("took longer than its time-out of 5 s", "took longer than its time-out of 0.25 s"),
        ("E: one\n  two", "E: one two"),
    ],
)
def test_similar_failures_get_the_same_fingerprint(one: str, two: str):
    assert same(one, two), (common_text(one), common_text(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("KeyError: 'ann'", "ValueError: 'ann'"),
        ("E: cannot read", "E: cannot write"),
        ("E: it can't be read and don't ask", "E: it can't be sent and don't ask"),  # apostrophes quote nothing
        ("E: decade facade", "E: facade decade"),  # words of hex letters count as words
        ("", "E: x"),
        ("exit code 2", "exit code 5"),
        ("exit code 2", "exit code 137"),
        ("step 'load': exit code 2", "step 'load': exit code 3"),
        ("killed by SIGUSR1", "killed by SIGUSR2"),
        ("killed by signal 35", "killed by signal 36"),
        (
            "CalledProcessError: Command 'x' returned non-zero exit status 2.",
            "CalledProcessError: Command 'x' returned non-zero exit status 3.",
        ),
        (
            "CalledProcessError: Command 'x' died with <Signals.SIGKILL: 9>.",
            "CalledProcessError: Command 'x' died with <Signals.SIGTERM: 15>.",
        ),
    ],
)
def test_other_failures_get_another_fingerprint(one: str, two: str):
    assert not same(one, two), common_text(one)


def test_failures_of_other_jobs_get_another_fingerprint():
    prints = {fingerprint(*where, "E: x") for where in (("default", "mail"), ("default", "post"), ("team", "mail"))}
    assert len(prints) == 3
    assert {len(one) for one in prints} == {12}


def test_the_type_of_an_error_is_read_from_its_text():
    assert error_type("requests.HTTPError: 500") == "requests.HTTPError"
    assert error_type("exit code 3") == ""
    assert error_type("see: nothing") == "see"  # a word and a colon look like a type
    assert error_type("") == ""


@given(st.text(max_size=300), st.integers(0, 10**12), st.integers(0, 10**12))
def test_numbers_do_not_count(text: str, one: int, two: int):
    assert common_text(f"{text} {one} x") == common_text(f"{text} {two} x")


@given(st.text())
def test_any_text_has_a_stable_fingerprint(text: str):
    assert fingerprint("n", "j", text) == fingerprint("n", "j", text)


@pytest.mark.parametrize("text", ["'" * 4_000, "/" * 4_000, "a" * 4_000, "0x" * 2_000, "1." * 2_000, " " * 4_000])
def test_hostile_text_takes_little_time(text: str):
    began = time.process_time()
    common_text(text)
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("E: 404 of http://a.example.org/x", "E: 404 of http://a.example.org/y?page=7#top"),
        ("E: 'https://a.example.org/x' is away", "E: 'https://a.example.org/y' is away"),
        ("E: https://ann:one@a.example.org/x", "E: https://bob:two@a.example.org/x"),
        ("E: http://a.example.org:8080/x", "E: http://a.example.org:8081/x"),
        ("E: http://[::1]:80/x", "E: http://[::1]:80/y"),
        ("E: file:///a/b", "E: file:///c"),
    ],
)
def test_the_path_of_a_url_does_not_count(one: str, two: str):
    assert same(one, two), (common_text(one), common_text(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("E: no answer from http://a.example.org/x", "E: no answer from http://b.example.org/x"),
        ("E: no answer from 'http://a.example.org/x'", "E: no answer from 'http://b.example.org/x'"),
        ("E: http://a.example.org: refused", "E: https://a.example.org: refused"),
    ],
)
def test_the_host_of_a_url_counts(one: str, two: str):
    assert not same(one, two), common_text(one)


def test_a_url_is_shown_with_its_host_and_without_its_password():
    told = "E: <https://ann:secret@api.example.org:8443/orders/7?key=1>, and 'http://b.example.org' too"
    assert common_text(told) == "E: <https://api.example.org:<n><path>>, and http://b.example.org too"


@pytest.mark.parametrize("text", ["a://" * 1_000, "'a://b" * 800, "a" * 4_000 + "://", "x://" + "@" * 4_000])
def test_no_url_takes_long(text: str):
    began = time.process_time()
    common_text(text)
    assert time.process_time() - began < 0.2
