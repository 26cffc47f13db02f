"""Every public name says what it does, with an example; and every example does what it says.

An example of a method goes on where that of its class ended, as it does for who reads them. What a verb promises is
said once, in `Verbs`: `Scheduler`, `Client` and their blocking twins inherit the words, and it is the scheduler's
that are run.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

import onthedot as otd
import onthedot_verify
from tests.docs.public import MODULES, PROPERTIES, Public, public_names
from tests.docs.running import Names, examples_of, run_examples

PUBLIC = {public.path: public for public in public_names()}
RUNS_A_PROGRAM = {"onthedot.Scheduler.retry_run"}
SAME_VERBS = ("onthedot.Verbs.", "onthedot.BlockingScheduler.", "onthedot.Client.", "onthedot.BlockingClient.")


def owner_of(path: str) -> Public | None:
    return PUBLIC.get(path.rpartition(".")[0])


def is_shown(public: Public) -> bool:
    """By an example of its own; for a property one of its class that uses it is enough."""
    owner = owner_of(public.path)
    name = public.path.rpartition(".")[2]
    if isinstance(public.value, PROPERTIES) and owner is not None:
        return any(f".{name}" in example.source for doc in (owner.doc, public.doc) for example in examples_of(doc))
    for prefix in SAME_VERBS:
        if public.path.startswith(prefix) and hasattr(otd.Scheduler, name):
            return bool(examples_of(inspect.getdoc(getattr(otd.Scheduler, name))))
    return bool(examples_of(public.doc))


def is_repeated(path: str) -> bool:
    """Whether these are the words of the scheduler's own verb, seen from elsewhere."""
    twin = PUBLIC.get(f"onthedot.Scheduler.{path.rpartition('.')[2]}")
    return path.startswith(SAME_VERBS) and twin is not None and twin.doc == PUBLIC[path].doc


def names_for(public: Public) -> Names:
    """What an example finds: the names of its module; for a method, what the example of its class has left."""
    names: Names = dict(vars(importlib.import_module(inspect.unwrap(_function(public.value)).__module__)))
    owner = owner_of(public.path)
    if owner is not None:
        assert run_examples(owner.doc, names) == []
    return names


def _function(value: Any) -> Any:
    if isinstance(value, cached_property):
        return value.func
    return value.fget if isinstance(value, property) else value


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_name_has_a_docstring(path):
    assert PUBLIC[path].doc, f"{path} has no docstring: say what it promises"


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_name_has_an_example(path):
    assert is_shown(PUBLIC[path]), f"{path} has no example: show a newcomer how it is used"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path in RUNS_A_PROGRAM else [])
        for path in PUBLIC
        if examples_of(PUBLIC[path].doc) and not is_repeated(path)
    ],
)
def test_an_example_does_what_it_says(path):
    problems = run_examples(PUBLIC[path].doc, names_for(PUBLIC[path]))
    assert problems == []


def inner_examples() -> Iterator[tuple[str, str | None]]:
    """What modules show without its being public: the module, and the words."""
    known = {public.doc for public in PUBLIC.values()}
    for package in (otd, onthedot_verify):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(found.name)):
                    if test.examples and inspect.cleandoc(test.docstring or "") not in known:
                        yield found.name, test.docstring


@pytest.mark.slow
def test_the_examples_of_inner_functions_are_true_as_well():
    inner = list(inner_examples())
    for module, doc in inner:
        assert run_examples(doc, dict(vars(importlib.import_module(module)))) == [], module
    assert len(inner) > 60


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("onthedot_verify.")])
def test_a_package_shows_its_use(module):
    assert "\n    " in (importlib.import_module(module).__doc__ or ""), f"{module} shows no use"


# ── the check itself can fail ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("doc", "problem"),
    [
        (">>> 1 + 1\n3", "Expected"),
        (">>> 1 + 1", "Expected nothing"),
        (">>> await asyncio.sleep(0, 'a')\n'b'", "Expected"),
        (">>> 1 / 0", "raised ZeroDivisionError: division by zero"),
        (">>> 1\nTraceback (most recent call last):\nValueError: no", "raised nothing"),
        (">>> 1 / 0\nTraceback (most recent call last):\nValueError: no", "raised ZeroDivisionError"),
        (">>> async with nothing:\n...     pass", "raised NameError"),
    ],
)
def test_an_example_that_is_not_true_is_found(doc, problem):
    found = run_examples(">>> import asyncio\n" + doc, {})
    assert len(found) == 1
    assert problem in found[0]


def test_examples_share_their_names_and_may_await():
    names: Names = {}
    doc = ">>> import asyncio\n>>> a = await asyncio.sleep(0, 20)\n>>> a + 1  # doctest: +ELLIPSIS\n2..."
    assert run_examples(doc, names) == []
    assert names["a"] == 20
