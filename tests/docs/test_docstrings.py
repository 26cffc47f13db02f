"""Every public name says what it does, with an example; and every example does what it says.

An example of a method goes on where that of its class ended, as it does for who reads them. What a verb promises is
said once, in `Verbs`: `Scheduler` and `BlockingScheduler` inherit the words, and it is the scheduler's that are run.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from functools import cached_property
from typing import Any

import pytest

import onthedot as otd
from tests.docs.public import PROPERTIES, Public, public_names
from tests.docs.running import Names, examples_of, run_examples

PUBLIC = {public.path: public for public in public_names()}
FOR_DRIVERS = ("onthedot.testing.simulation.",)
SAME_VERBS = ("onthedot.Verbs.", "onthedot.BlockingScheduler.")


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


@pytest.mark.parametrize("path", [path for path in PUBLIC if not path.startswith(FOR_DRIVERS)])
def test_a_public_name_has_an_example(path):
    assert is_shown(PUBLIC[path]), f"{path} has no example: show a newcomer how it is used"


@pytest.mark.parametrize("path", [path for path in PUBLIC if examples_of(PUBLIC[path].doc) and not is_repeated(path)])
def test_an_example_does_what_it_says(path):
    problems = run_examples(PUBLIC[path].doc, names_for(PUBLIC[path]))
    assert problems == []


def test_the_examples_of_inner_functions_are_true_as_well():
    """In the modules that public names come from, and where handlers' words are kept."""
    known = {public.doc for public in PUBLIC.values()}
    modules = {inspect.unwrap(_function(public.value)).__module__ for public in PUBLIC.values()}
    tried = 0
    for module in sorted({*modules, "onthedot.tasks.notes", "onthedot.tasks.importable", "onthedot.route"}):
        loaded = importlib.import_module(module)
        for found in doctest.DocTestFinder(exclude_empty=True).find(loaded):
            if found.examples and inspect.cleandoc(found.docstring or "") not in known:
                tried += 1
                assert run_examples(found.docstring, dict(vars(loaded))) == [], found.name
    assert tried > 10


def test_what_is_for_drivers_is_shown_by_its_package():
    for prefix in FOR_DRIVERS:
        assert "\n    " in (pkgutil.resolve_name(prefix.rstrip(".")).__doc__ or ""), f"{prefix}* shows no use"


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
