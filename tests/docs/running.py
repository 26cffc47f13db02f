"""Runs the examples of a docstring line by line. They may use `await`, as in `python -m asyncio`."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import io
import traceback
from contextlib import redirect_stdout
from types import CodeType
from typing import Any

Names = dict[str, Any]

_PARSER, _CHECKER = doctest.DocTestParser(), doctest.OutputChecker()


def examples_of(doc: str | None) -> list[doctest.Example]:
    """The examples in a docstring."""
    return _PARSER.get_examples(doc or "")


def run_examples(doc: str | None, names: Names) -> list[str]:
    """Run the examples in order and return the problems. They read and change `names`."""
    problems = []
    with asyncio.Runner() as runner:
        for example in examples_of(doc):
            got, raised = _run(example, names, runner)
            expected = "" if example.exc_msg is not None else example.want
            flags = _flags(example)
            if raised is None and example.exc_msg is not None:
                problems.append(f"{example.source}  raised nothing; expected {example.exc_msg}")
            elif raised is not None and (
                example.exc_msg is None or not _CHECKER.check_output(example.exc_msg, raised, flags)
            ):
                problems.append(f"{example.source}  raised {raised}")
            elif raised is None and not _CHECKER.check_output(expected, got, flags):
                problems.append(f"{example.source}  {_CHECKER.output_difference(example, got, flags)}")
    return problems


def _run(example: doctest.Example, names: Names, runner: asyncio.Runner) -> tuple[str, str | None]:
    said = io.StringIO()
    with redirect_stdout(said):
        try:
            code = compile(example.source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            _do(code, names, runner)
        except Exception as error:  # noqa: BLE001 - an example may show any exception
            return said.getvalue(), traceback.format_exception_only(error)[-1]
    return said.getvalue(), None


def _do(code: CodeType, names: Names, runner: asyncio.Runner) -> None:
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(eval(code, names))  # noqa: S307 - our own docstrings
    else:
        exec(code, names)  # noqa: S102 - our own docstrings


def _flags(example: doctest.Example) -> int:
    flags = 0
    for flag, wanted in example.options.items():
        flags |= flag if wanted else 0
    return flags
