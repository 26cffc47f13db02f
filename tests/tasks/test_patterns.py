"""Patterns for the values of parameters: what they match, and that none of them is slow."""

from __future__ import annotations

import time

import pytest

from onthedot.define.check import check_job
from onthedot.errors import DefinitionError
from onthedot.job import Job
from onthedot.task import Command, Param
from onthedot.tasks.params import value_problems
from onthedot.tasks.patterns import MOST_VALUE, is_harmless, matches, pattern_problem


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("v[0-9]+[.][0-9]+", "v1.20", "v1.20; id"),
        ("^eu|us$", "eu", "eux"),
        (r"\d{4}-\d{2}-\d{2}", "2026-01-31", "2026-1-31"),
        ("(?:ab)+", "abab", "aba"),
        ("[a-z]+(-[a-z]+)?", "eu-west", "eu-"),
        (r"a\$", "a$", "a"),
        ("[]a]", "]", "b"),
        ("[^/]+", "ab", "a/b"),
        ("a.c", "abc", "a\nc"),
        (r"\w", "a", "\u00e9"),
    ],
)
def test_the_whole_value_matches(pattern: str, good: str, bad: str):
    assert pattern_problem(pattern) == ""
    assert matches(pattern, good)
    assert not matches(pattern, bad)
    assert not matches(pattern, good + "/\n")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+", "(a|a)*", "(a|ab)+", "(a*)*b", "((a?){9}){9}", "a*a*a*a*b", "(?=a)", r"(a)\1", "(?P<x>a)", "a*?", "a*+",
     "*", "[[a]", "[a--]", "[a&&b]", "(?:a?){9}a{9}",
     "a{2", "(a", "a)", "[a", "a^b", "[z-a]", "a{9,1}", "", "a" * 201, "(?i)a", "|*", "a{0,999}{0,999}", r"\Aa", r"\b"],
)  # fmt: skip
def test_what_is_refused(pattern: str):
    assert pattern_problem(pattern)
    assert not matches(pattern, "a")
    assert not is_harmless(pattern)


@pytest.mark.parametrize("pattern", ["[a-z]+[a-z]+[a-z]+", "a*a*a*", "[a-z]+(?:-?[a-z]+)?", "(ab)*(ab)*(ab)*"])
def test_none_of_them_is_slow(pattern: str):
    assert pattern_problem(pattern) == ""
    for value in ("a" * (MOST_VALUE - 1) + "!", "ab" * (MOST_VALUE // 2 - 1) + "!"):
        before = time.process_time()
        assert not matches(pattern, value)
        assert time.process_time() - before < 2


def test_values_and_declarations():
    param = Param(name="x", pattern="[a-z]+")
    assert value_problems(param, "eu") == []
    assert value_problems(param, "EU") == ["x: expected text that matches '[a-z]+', got \"EU\""]
    [too_long] = value_problems(param, "a" * 201)
    assert too_long.startswith("x: expected text of at most 200 characters that matches '[a-z]+'")
    for bad, said in (
        (Param(name="x", pattern="(a+)+"), "params.x: expected a pattern such as 'v[0-9]+', got '(a+)+': a group"),
        (Param(name="x", kind="whole", pattern="1"), "params.x: expected no pattern for the kind 'whole'"),
        (Param(name="x", pattern="[a-z]+", default="EU"), "params.default of x: expected text that matches"),
        (Param(name="x", pattern="[a-z]+", choices=("EU",)), "params.choices of x: expected text that matches"),
    ):
        with pytest.raises(DefinitionError) as error:
            check_job(Job(name="j", task=Command(argv=("ls", "${{ params.x }}")), params=(bad,)))
        assert error.value.problems[0].startswith(said)
