"""Docstrings: every public name has a docstring with an example, and every example works.

The example of a method continues that of its class, as a reader expects. Verbs are documented once, in `Verbs`.
`Scheduler`, `Client` and their blocking twins inherit the docstrings, and the examples of `Scheduler` are run.
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
    """Whether an example shows it. For a property, an example of its class that uses it is enough."""
    owner = owner_of(public.path)
    name = public.path.rpartition(".")[2]
    if isinstance(public.value, PROPERTIES) and owner is not None:
        return any(f".{name}" in example.source for doc in (owner.doc, public.doc) for example in examples_of(doc))
    for prefix in SAME_VERBS:
        if public.path.startswith(prefix) and hasattr(otd.Scheduler, name):
            return bool(examples_of(inspect.getdoc(getattr(otd.Scheduler, name))))
    return bool(examples_of(public.doc))


def is_repeated(path: str) -> bool:
    """Whether this docstring is the same as that of the scheduler's verb."""
    twin = PUBLIC.get(f"onthedot.Scheduler.{path.rpartition('.')[2]}")
    return path.startswith(SAME_VERBS) and twin is not None and twin.doc == PUBLIC[path].doc


def names_for(public: Public) -> Names:
    """The names for an example: those of its module; for a method, also those that the class's example leaves."""
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
    assert PUBLIC[path].doc, f"{path} has no docstring; add one"


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_name_has_an_example(path):
    assert is_shown(PUBLIC[path]), f"{path} has no example; add one that shows its use"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path in RUNS_A_PROGRAM else [])
        for path in PUBLIC
        if examples_of(PUBLIC[path].doc) and not is_repeated(path)
    ],
)
def test_an_example_of_a_public_name_works(path):
    problems = run_examples(PUBLIC[path].doc, names_for(PUBLIC[path]))
    assert problems == []


def inner_examples() -> Iterator[tuple[str, str | None]]:
    """Examples of names that are not public: the module and the docstring."""
    known = {public.doc for public in PUBLIC.values()}
    for package in (otd, onthedot_verify):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(found.name)):
                    if test.examples and inspect.cleandoc(test.docstring or "") not in known:
                        yield found.name, test.docstring


@pytest.mark.slow
def test_examples_of_private_names_work():
    inner = list(inner_examples())
    for module, doc in inner:
        assert run_examples(doc, dict(vars(importlib.import_module(module)))) == [], module
    assert len(inner) > 60


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("onthedot_verify.")])
def test_a_package_of_verify_shows_its_use(module):
    assert "\n    " in (importlib.import_module(module).__doc__ or ""), f"{module} shows no use"


# ── the check itself ─────────────────────────────────────────────────────────────────────────────────────────


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
def test_a_wrong_example_is_found(doc, problem):
    found = run_examples(">>> import asyncio\n" + doc, {})
    assert len(found) == 1
    assert problem in found[0]


def test_examples_share_their_names_and_may_await():
    names: Names = {}
    doc = ">>> import asyncio\n>>> a = await asyncio.sleep(0, 20)\n>>> a + 1  # doctest: +ELLIPSIS\n2..."
    assert run_examples(doc, names) == []
    assert names["a"] == 20
