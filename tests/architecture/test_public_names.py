"""Every name of `onthedot.__all__` exists, is public, is listed once, and is sorted."""

from __future__ import annotations

import pytest

import onthedot


def in_order(names: list[str]) -> list[str]:
    """Sort names as ruff (RUF022) does: constants, then classes, then the rest, each by name."""

    def place(name: str) -> tuple[int, str]:
        if name.isupper() and len(name) > 1:
            return 0, name
        return (1, name) if name[:1].isupper() else (2, name)

    return sorted(names, key=place)


def test_the_names_are_sorted():
    assert list(onthedot.__all__) == in_order(list(onthedot.__all__))


def test_no_name_is_listed_twice():
    assert len(set(onthedot.__all__)) == len(onthedot.__all__)


def test_every_name_can_be_imported():
    missing = [name for name in onthedot.__all__ if not hasattr(onthedot, name)]
    assert not missing, f"names in `onthedot.__all__` that do not exist: {', '.join(missing)}"


def test_every_name_is_public():
    private = [name for name in onthedot.__all__ if name.startswith("_") and name != "__version__"]
    assert not private, f"private names in `onthedot.__all__`: {', '.join(private)}"


def test_the_order_is_constants_then_classes_then_the_rest():
    names = ["cron", "Job", "__version__", "UTC", "Zone", "at"]
    assert in_order(names) == ["UTC", "Job", "Zone", "__version__", "at", "cron"]


def test_dir_lists_every_name_before_it_is_loaded():
    assert set(onthedot.__all__) <= set(dir(onthedot))


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'onthedot' has no attribute 'nothing'"):
        onthedot.nothing  # type: ignore[attr-defined]  # noqa: B018
