"""The examples in the docstrings of schedules and of their values run and are correct."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import onthedot.schedules

NAMES = [f"onthedot.schedules.{module.name}" for module in pkgutil.iter_modules(onthedot.schedules.__path__)]


@pytest.mark.parametrize("name", [*NAMES, "onthedot.model.duration", "onthedot.model.job", "onthedot.model.rate"])
def test_the_examples_are_correct(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
