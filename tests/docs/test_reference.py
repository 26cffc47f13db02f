"""The generated reference: it has every option, key, setting, command, route, event, error and metric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

import click
import pytest

import onthedot
from docs import reference_pages
from onthedot.cli.main import cli
from onthedot.define import key_docs, options
from onthedot.model import errors
from onthedot.model.events import Event
from onthedot.model.run import RunState
from onthedot.model.verdict import OutcomeKind
from onthedot.observe import metrics
from onthedot.server.app import describe_api
from onthedot.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"


@cache
def text_of(name: str) -> str:
    return reference_pages.PAGES[name]()


def first_cells(name: str) -> set[str]:
    """The first cells of the tables of a page."""
    return set(re.findall(r"^\| `([^`]+)`", text_of(name), re.MULTILINE))


def commands(group: click.Group, path: str = "onthedot") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if not command.hidden:
            yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def test_every_option_of_a_job_is_listed():
    named = {*options.HandlerOptions.__annotations__, *options.ProgramOptions.__annotations__}
    assert first_cells("jobs") == named


def test_every_key_of_a_file_is_listed():
    groups = [value for value in vars(key_docs).values() if isinstance(value, dict)]
    described = [group for group in groups if any(isinstance(one, key_docs.KeyDoc) for one in group.values())]
    assert first_cells("files") >= {key for group in described for key in group}


def test_every_setting_is_listed():
    assert first_cells("settings") == {one.name for one in fields(Settings)}


def test_every_command_is_listed_with_its_options():
    page = text_of("cli")
    found = dict(commands(cli))
    assert len(found) > 50
    for path, command in found.items():
        assert re.search(rf"^#+ {re.escape(path)}$", page, re.MULTILINE), path
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in page, f"{path} {option.opts[0]}"


def test_every_route_is_listed():
    document: Any = describe_api()
    page = text_of("http")
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"### `{method.upper()} {path}`" in page


def test_every_event_is_listed():
    headings = set(re.findall(r"^## (\w+)$", text_of("events"), re.MULTILINE))
    assert headings == {cls.__name__ for cls in get_args(Event)}


def test_every_error_is_listed():
    named = {name.rpartition(".")[2] for name in first_cells("errors")}
    own = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert named >= own


def test_every_metric_is_listed():
    source = Path(metrics.__file__).read_text()
    names = set(re.findall(r'"(onthedot_[a-z_]+)"', source))
    shown = {name.removesuffix("_total") for name in first_cells("metrics")}
    assert {name.removesuffix("_total") for name in names} == shown


def test_every_state_outcome_and_reason_of_a_skip_is_listed():
    in_the_promises = set(re.findall(r"skipped\((\w+)\)", (DOCS / "guarantees.md").read_text()))
    assert first_cells("states") == {*RunState, *OutcomeKind, *in_the_promises}


def test_every_public_name_is_listed():
    page = text_of("python") + text_of("errors")
    missing = {name for name in onthedot.__all__ if not re.search(rf"(### `?|`otd\.){name}\b", page)}
    assert not missing


@pytest.mark.parametrize("name", ["jobs", "files", "settings", "errors", "metrics", "states"])
def test_every_listed_name_has_a_description(name: str):
    empty: list[str] = []
    column = 0
    for line in text_of(name).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells or set(cells[0]) == {"-"}:
            continue
        meanings = [number for number, cell in enumerate(cells) if cell in ("meaning", "raised when")]
        if meanings:
            column = meanings[0]
        elif not cells[column]:
            empty.append(cells[0])
    assert not empty, f"write a docstring for: {empty}"
