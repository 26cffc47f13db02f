"""Checks docs/coverage.md: it parses the test files to find the named tests, which is faster than collecting them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

SECTIONS = {"S1": 22, "S2": 19, "S3": 32, "S4": 26, "S5": 39}
NUMBERS = [f"{section}-{n:02d}" for section, last in SECTIONS.items() for n in range(1, last + 1)]
OPEN = "open"
NOT_SOURCE = ("tests/", "verify/", "docs/")


@dataclass(frozen=True)
class Row:
    line: int
    number: str
    behaviour: str
    where: str
    shown: str

    @property
    def is_open(self) -> bool:
        return self.where == self.shown == OPEN


def problems(text: str, root: Path) -> list[str]:
    """Every wrong statement of the page, with its line."""
    rows, found = _rows(text)
    times = Counter(row.number for row in rows)
    found += [f"{number} is missing" for number in NUMBERS if not times[number]]
    found += [f"{number} is there {n} times" for number, n in times.items() if n > 1]
    found += [f"{number} is not a number of this page" for number in times if number not in NUMBERS]
    for row in rows:
        found += [f"line {row.line}: {row.number}: {problem}" for problem in _row_problems(row, root)]
    return found


def _rows(text: str) -> tuple[list[Row], list[str]]:
    rows, found = [], []
    for line, content in enumerate(text.splitlines(), 1):
        if not re.match(r"\|\s*S\d", content):
            continue
        cells = [cell.strip() for cell in content.strip().strip("|").split("|")]
        if len(cells) == 4:
            rows.append(Row(line, *cells))
        else:
            found.append(f"line {line}: {len(cells)} cells where there should be 4")
    return rows, found


def _row_problems(row: Row, root: Path) -> Iterator[str]:
    if not row.behaviour:
        yield "says no behaviour"
    if row.is_open:
        return
    if OPEN in (row.where, row.shown):
        yield f"half open; write `{OPEN}` in both columns or in none"
        return
    yield from _where_problems(row.where, root)
    yield from _shown_problems(row.shown, root)


def _where_problems(cell: str, root: Path) -> Iterator[str]:
    paths, loose = _ticked(cell)
    if loose:
        yield f"`where it works` holds more than paths in backticks: {loose!r}"
    for path in paths:
        if not (root / path).exists():
            yield f"there is no {path}"
    if not any(not path.startswith(NOT_SOURCE) for path in paths):
        yield "names no source path"


def _shown_problems(cell: str, root: Path) -> Iterator[str]:
    nodes, loose = _ticked(cell)
    if loose:
        yield f"`shown by` holds more than tests in backticks: {loose!r}"
    if not nodes:
        yield "names no test"
    for node in nodes:
        problem = why_not_collected(node, root)
        if problem:
            yield f"{node}: {problem}"


def _ticked(cell: str) -> tuple[list[str], str]:
    """The pieces in backticks, and the rest without commas."""
    return re.findall(r"`([^`]+)`", cell), re.sub(r"`[^`]+`", "", cell).replace(",", "").strip()


# ── collection ───────────────────────────────────────────────────────────────────────────────────────────────

Function = ast.FunctionDef | ast.AsyncFunctionDef


def why_not_collected(node_id: str, root: Path) -> str | None:
    """None when pytest collects `path::test_name` or `path::TestClass::test_name`; else what is wrong."""
    path, *names = node_id.split("::")
    if "[" in node_id:
        return "name the test without its parameters"
    if not 1 <= len(names) <= 2:
        return "write path::test_name or path::TestClass::test_name"
    if not path.startswith("tests/") or not fnmatchcase(Path(path).name, "test_*.py"):
        return "pytest collects tests/**/test_*.py"
    if not (root / path).is_file():
        return "there is no such file"
    if not names[-1].startswith("test"):
        return "pytest collects test functions only"
    if len(names) == 2 and not names[0].startswith("Test"):
        return "pytest collects classes named Test… only"
    found = _find(names, root / path, root)
    if found is None:
        return "there is no such test in that file"
    return _why_not_run(found)


def _why_not_run(found: list[ast.stmt]) -> str | None:
    for definition in found:
        if isinstance(definition, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in definition.decorator_list:
                name = ast.unparse(mark).partition("(")[0]
                if name in {"pytest.mark.skip", "pytest.mark.xfail"}:
                    return f"it is marked {name}, so it shows nothing"
    return None


def _find(names: list[str], path: Path, root: Path) -> list[ast.stmt] | None:
    """The definitions of these names, found through imports and base classes."""
    seen = _definition(names[0], path, root, depth=5)
    if seen is None:
        return None
    definition, home = seen
    if len(names) == 1:
        return [definition] if isinstance(definition, Function) else None
    if not isinstance(definition, ast.ClassDef):
        return None
    method = _method(definition, names[1], home, root, depth=5)
    return None if method is None else [definition, method]


def _definition(name: str, path: Path, root: Path, depth: int) -> tuple[ast.stmt, Path] | None:
    """A top-level definition, and the file it is in when this one only imports it."""
    if depth == 0:
        return None
    for stmt in reversed(_parse(path).body):
        if isinstance(stmt, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and stmt.name == name:
            return stmt, path
        origin = _imported_from(name, stmt)
        source = _module_file(origin[0], root) if origin else None
        if origin and source:
            seen = _definition(origin[1], source, root, depth - 1)
            if seen:
                return seen
    return None


def _imported_from(name: str, stmt: ast.stmt) -> tuple[str, str] | None:
    """(module, name there) when the statement imports `name`, or may do so by a star."""
    if isinstance(stmt, ast.ImportFrom) and stmt.level == 0 and stmt.module:
        for alias in stmt.names:
            if alias.name == "*":
                return stmt.module, name
            if (alias.asname or alias.name) == name:
                return stmt.module, alias.name
    return None


def _method(owner: ast.ClassDef, name: str, home: Path, root: Path, depth: int) -> Function | None:
    for stmt in owner.body:
        if isinstance(stmt, Function) and stmt.name == name:
            return stmt
    for base in owner.bases if depth else ():
        seen = _definition(base.id, home, root, depth) if isinstance(base, ast.Name) else None
        if seen and isinstance(seen[0], ast.ClassDef):
            method = _method(seen[0], name, seen[1], root, depth - 1)
            if method:
                return method
    return None


def _module_file(module: str, root: Path) -> Path | None:
    inside = Path(*module.split("."))
    for place in (root / "src" / inside, root / "verify" / inside, root / inside):
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
