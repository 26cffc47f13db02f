"""Files have at most 700 lines and functions at most 70, without exceptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import PACKAGE, ROOT, VERIFY, python_files, report

FILE_LINES = 700
FUNCTION_LINES = 70

FILES = python_files(PACKAGE, VERIFY, ROOT / "tests")


def too_long(source: str, path: str) -> Iterator[str]:
    lines = len(source.splitlines())
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, at most {FILE_LINES}; split it by subject"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES};"
                    " move its steps into functions"
                )


def test_files_and_functions_are_short():
    found = [finding for path in FILES for finding in too_long(path.read_text(), path.relative_to(ROOT).as_posix())]
    assert not found, report("too long", found)


@pytest.mark.parametrize("place", [PACKAGE, VERIFY])
def test_the_sources_are_found(place):
    assert any(place in path.parents for path in FILES)


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_of_70_lines_passes_and_one_of_71_is_found(keyword):
    body = "    x = 1\n" * (FUNCTION_LINES - 1)
    assert list(too_long(f"{keyword} f():\n{body}", "a.py")) == []
    [message] = too_long(f"\n{keyword} f():\n{body}    y = 2\n", "a.py")
    assert message.startswith("a.py:2: f has 71 lines")


def test_a_long_method_is_found():
    body = "        x = 1\n" * FUNCTION_LINES
    assert list(too_long(f"class A:\n    def f(self):\n{body}", "a.py"))


def test_a_file_of_700_lines_passes_and_one_of_701_is_found():
    assert list(too_long("x = 1\n" * FILE_LINES, "a.py")) == []
    assert list(too_long("x = 1\n" * (FILE_LINES + 1), "a.py"))
