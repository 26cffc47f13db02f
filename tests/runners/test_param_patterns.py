"""Patterns for the values of parameters: what they match, that they agree with `re`, and that none is slow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.define.check import check_job
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job
from onthedot.model.task import Command, Param
from onthedot.runners.param_patterns import MOST_VALUE, _Match, _read, is_harmless, matches, pattern_problem
from onthedot.runners.params import value_problems


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
def test_a_pattern_must_match_the_whole_value(pattern: str, good: str, bad: str):
    assert pattern_problem(pattern) == ""
    assert matches(pattern, good)
    assert not matches(pattern, bad)
    assert not matches(pattern, good + "/\n")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+", "(a|a)*", "(a|ab)+", "(a*)*b", "((a?){9}){9}", "(?=a)", r"(a)\1", "(?P<x>a)", "a*?", "a*+",
     "*", "[[a]", "[a--]", "[a&&b]", "(?:a?){9}a{9}",
     "a{2", "(a", "a)", "[a", "a^b", "[z-a]", "a{9,1}", "", "a" * 201, "(?i)a", "|*", "a{0,999}{0,999}", r"\Aa", r"\b"],
)  # fmt: skip
def test_an_unsupported_pattern_is_refused(pattern: str):
    assert pattern_problem(pattern)
    assert not matches(pattern, "a")
    assert not is_harmless(pattern)


HOSTILE = [
    "(a|.)" * 29, "(?:a|.)" * 24, "(a|ab|.)" * 20, "(|a)" * 40, "(a?)" * 50, "a?" * 66 + "a" * 66, "(a|.)?" * 30,
    "[a-z]+[a-z]+[a-z]+", "a*a*a*a*b", "a*" * 100, "[a-z]+(?:-?[a-z]+)?", "(ab)*(ab)*(ab)*", "((a|.)(a|.)|..)" * 13,
    "(" * 49 + "a|." + ")?" * 49, "(" * 99 + ")" * 99, "(" + "a" * 190 + "){0,200}", "(" + "()" * 95 + "){999}",
    "a{0,999}" * 25, "(.{0,200})?" * 18,
]  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_match_takes_a_limited_number_of_steps(pattern: str):
    """Each atom takes one step per repeat: at most the length of the pattern times its largest repeat."""
    assert pattern_problem(pattern) == ""
    for value in ("a" * (MOST_VALUE - 1) + "!", "ab" * (MOST_VALUE // 2 - 1) + "!", "a" * 30 + "b", "a" * 67):
        match = _Match(value)
        match.is_whole(_read(pattern).whole)
        assert match.steps <= len(pattern) * 999
        if "{" not in pattern:
            assert match.steps <= len(pattern) * MOST_VALUE // 2


def test_steps_do_not_double_with_each_alternative():
    def steps(forks: int) -> int:
        match = _Match("a" * forks + "b")
        assert not match.is_whole(_read("(a|.)" * forks).whole)
        return match.steps

    assert [steps(forks) for forks in (1, 10, 20, 40)] == [3, 30, 60, 120]


atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\n", "-"])
repeats = st.sampled_from(["", "", "?", "*", "+", "{2}", "{0,2}", "{1,}", "{0}"])
rows = st.lists(st.tuples(atoms, repeats).map("".join), max_size=3).map("".join)
repeated = st.tuples(st.lists(atoms, max_size=3).map("".join), repeats).map(lambda both: f"({both[0]}){both[1]}")
forked = st.tuples(st.lists(rows, min_size=1, max_size=3).map("|".join), st.sampled_from(["", "?"])).map(
    lambda both: f"(?:{both[0]}){both[1]}"
)
patterns = st.lists(st.one_of(rows, repeated, forked, st.just("|")), min_size=1, max_size=5).map("".join)


@given(patterns.filter(lambda pattern: 0 < len(pattern) < 60), st.text("ab-\n", max_size=7))
def test_the_result_is_the_same_as_that_of_a_regular_expression(pattern: str, value: str):
    if not pattern_problem(pattern):
        assert matches(pattern, value) == bool(re.fullmatch(pattern, value, re.ASCII))


def test_values_and_definitions_are_checked_by_the_pattern():
    param = Param(name="x", pattern="[a-z]+")
    assert value_problems(param, "eu") == []
    assert value_problems(param, "EU") == ["x: expected text that matches '[a-z]+', got \"EU\""]
    [too_long] = value_problems(param, "a" * 201)
    assert too_long.startswith("x: expected text of at most 200 characters that matches '[a-z]+'")
    for bad, problem in (
        (Param(name="x", pattern="(a+)+"), "params.x: expected a pattern such as 'v[0-9]+', got '(a+)+': a group"),
        (Param(name="x", kind="whole", pattern="1"), "params.x: expected no pattern for the kind 'whole'"),
        (Param(name="x", pattern="[a-z]+", default="EU"), "params.default of x: expected text that matches"),
        (Param(name="x", pattern="[a-z]+", choices=("EU",)), "params.choices of x: expected text that matches"),
    ):
        with pytest.raises(DefinitionError) as error:
            check_job(Job(name="j", task=Command(argv=("ls", "${{ params.x }}")), params=(bad,)))
        assert error.value.problems[0].startswith(problem)
