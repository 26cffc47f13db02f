"""docs/design.md and its pages: the map is short, and every file, name, link and section that they mention exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from docs.reference_pages import PAGES as REFERENCE

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "design.md"
PAGES = [MAP, *sorted((ROOT / "docs" / "design").glob("*.md"))]
SOURCE = ROOT / "src" / "onthedot"
GENERATED = {ROOT / "docs" / "reference" / f"{name}.md" for name in REFERENCE}

MOST_LINES = 300
FEWEST_QUESTIONS = 30

FILE = r"[\w./-]+\.(?:py|lua|sql|md|toml)"
PATH = re.compile(r"`((?:[a-z_.]+/)+(?:[\w-]+(?:\.\w+)?)?)`")
"""A file or folder in backticks. Names with a star or without a slash do not count."""

MENTION = re.compile(r'(docs/design(?:/[\w-]+)?\.md)(?:, | has the \w+(?: of cases)?: )"([^"]+)"')


def table(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of the map, without the header."""
    [section] = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", MAP.read_text(), re.MULTILINE | re.DOTALL)
    lines = section[section.index("|---") :].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def find(path: str) -> Path:
    """The file of a path on these pages. Paths start at the root, `src/onthedot/` or `verify/`."""
    places = [base / path for base in (SOURCE, ROOT, ROOT / "verify")]
    return next((place for place in places if place.exists()), places[0])


@cache
def defined_in(file: Path) -> frozenset[str]:
    """The functions, classes and variables of a module, and `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        names |= names_of(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for inner in node.body for name in names_of(inner)}
    return frozenset(names)


def names_of(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {node.target.id} if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else set()


def problem_of(row: list[str]) -> str:
    """The problem with a row of "Where is …?"; empty if there is none."""
    question, file, name = row
    if not re.fullmatch(f"`{FILE}`", file) or not question.endswith("?"):
        return f"expected | question? | `file` | `name` or nothing |, got {row}"
    place = find(file.strip("`"))
    if not place.is_file():
        return f"{question} {file} is no file; update the row"
    if name and name.strip("`") not in defined_in(place):
        return f"{question} {file} defines no {name}; update the row"
    return ""


def heading_anchors(page: Path) -> dict[str, str]:
    """The headings of a page by their anchors, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"): heading for heading in headings}


def mentions() -> list[tuple[str, str, str]]:
    """All mentions of sections in our files: the file, the page and the heading. Comments may break lines anywhere."""
    found = []
    for folder in ("src", "verify", "tests"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".py", ".sql", ".lua", ".md"} and "docs/design" in (text := file.read_text()):
                text = re.sub(r"\s*\n\s*(?:#|--)?\s*", " ", text)
                found += [(str(file.relative_to(ROOT)), *mention) for mention in MENTION.findall(text)]
    return found


# ── the map ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_map_is_short():
    lines = MAP.read_text().splitlines()
    assert len(lines) <= MOST_LINES


def test_every_row_of_the_map_names_existing_code():
    rows = table("Where is …?")
    assert len(rows) >= FEWEST_QUESTIONS
    assert len({question for question, *_ in rows}) == len(rows)
    assert [problem for row in rows if (problem := problem_of(row))] == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (["a lease kept?", "`node/lease_keeper.py`", "`Keeper`"], "is no file"),
        (["a retry delayed?", "`rules/retry.py`", "`delay_after`"], "defines no `delay_after`"),
        (["a lease kept?", "node/heartbeat.py", ""], "expected"),
    ],
)
def test_a_wrong_row_of_the_map_is_found(row: list[str], problem: str):
    assert problem in problem_of(row)


def test_the_life_of_a_run_has_eight_existing_files():
    files = [row[1].strip("`") for row in table("The life of a run")]
    assert len(set(files)) == 8
    assert [file for file in files if not find(file).is_file()] == []


def test_every_promise_names_a_test():
    rows = table("How each promise is tested")
    assert [promise for promise, test in rows if not PATH.search(test) and "onthedot_verify." not in test] == []


# ── all pages ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_on_a_page_exists(page: Path):
    assert [path for path in PATH.findall(page.read_text()) if not find(path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_on_a_page_works(page: Path):
    wrong = []
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if there in GENERATED:
            continue
        if not there.exists() or (anchor and anchor not in heading_anchors(there)):
            wrong.append(link)
    assert wrong == []


def test_every_page_is_linked_from_the_map():
    assert [page.name for page in PAGES[1:] if f"(design/{page.name})" not in MAP.read_text()] == []


def test_every_section_named_in_a_comment_exists():
    found = mentions()
    assert len(found) > 5
    assert [one for one in found if one[2] not in heading_anchors(ROOT / one[1]).values()] == []
