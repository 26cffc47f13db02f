"""Docstrings and messages are in usual words: docs and code are read by people who learned English at school."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import PACKAGE, ROOT, VERIFY, python_files, report

RIDDLES = re.compile(
    r"\b(?:whoever|whomever|whom|anew|in vain|on record|told of|of its own accord|gives? out nothing|"
    r"nobody who|what is there|are let in|is let in)\b",
    re.IGNORECASE,
)
"""Whole phrases that had to be read twice. Single common words are not among them."""

NO_SUBJECT = re.compile(r"(?:What|Who|Whoever|How|Whether|Where|That|Which)\b")
"""How the first line of a module does not begin: it names the module and says what it does."""


def first_lines(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the first line of text of each docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.partition("\n")[0]


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of each piece of an error's message."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for piece in ast.walk(node.exc):
                if isinstance(piece, ast.Constant) and isinstance(piece.value, str):
                    yield piece.lineno, piece.value


@pytest.mark.parametrize("package", [PACKAGE, VERIFY / "onthedot_verify"], ids=["src", "verify"])
def test_first_lines_and_messages_have_no_riddles(package):
    found = []
    for path in python_files(package):
        tree = ast.parse(path.read_text())
        for line, text in [*first_lines(tree), *messages(tree)]:
            if riddle := RIDDLES.search(text):
                found.append(f"{path.relative_to(ROOT)}:{line}: {riddle[0]!r} in {text!r:.80}")
    assert not found, report("say it with a subject, a verb and the usual word:", found)


@pytest.mark.parametrize("package", [PACKAGE, VERIFY / "onthedot_verify"], ids=["src", "verify"])
def test_the_first_line_of_a_module_names_its_subject(package):
    found = []
    for path in python_files(package):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if not text or NO_SUBJECT.match(text):
            found.append(f"{path.relative_to(ROOT)}: {text.partition(chr(10))[0]!r:.80}")
    assert not found, report("begin with what the module does, as in 'Runs one command in a workspace.':", found)


def test_a_riddle_is_found_and_a_plain_sentence_is_not():
    riddles = ("Whoever asks is told of it.", "Nobody who tries is let in.", "The slot is planned anew.")
    plain = ("Who may do what is in docs/design.md.", "The caller gets the answer again.", "A list of 3 runs.")
    assert [bool(RIDDLES.search(text)) for text in (*riddles, *plain)] == [True, True, True, False, False, False]
    assert NO_SUBJECT.match("What a worker does.")
    assert not NO_SUBJECT.match("Whatsoever")
