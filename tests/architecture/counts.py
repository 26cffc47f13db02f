"""Counts files, lines, members of the store's protocol, small modules and late imports.

    python -m tests.architecture.counts [SRC]      SRC: the folder that contains `onthedot`; default: that of this tree

The numbers are for a comparison with an older tree. No test has a limit for them, because bad means, such as two
subjects in one file, can reach any limit.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT, python_files

PROTOCOL = ("stores/protocol.py", "stores/base.py")
"""The file of the store's protocol, and its place in older trees."""


def modules(package: Path) -> dict[str, Path]:
    """Return every module of a package by its dotted name. A package has the name of its `__init__`."""
    found = {}
    for path in python_files(package):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def importers(package: Path) -> dict[str, set[str]]:
    """Return for each module the modules of the package that import it."""
    known = modules(package)
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            for imported in imports_of(node):
                target = imported if imported in known else imported.rpartition(".")[0]
                if target in known and target != name:
                    found[target].add(name)
    return found


def imports_of(node: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def lonely_modules(package: Path) -> list[str]:
    """Return the modules that exactly one other module imports."""
    by_module = importers(package)
    return sorted(
        name for name, path in modules(package).items() if path.stem[:2] != "__" and len(by_module[name]) == 1
    )


def late_imports(folder: Path) -> int:
    """Return the number of import statements inside functions."""
    functions = [
        node
        for path in python_files(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = {
        id(inner): inner
        for function in functions
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    return len(found)


def rows_by_position(package: Path) -> int:
    """Return the number of reads such as `row[7]`."""
    return sum(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("row", "record")
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        for path in python_files(package)
        for node in ast.walk(ast.parse(path.read_text()))
    )


def protocol_members(package: Path) -> dict[str, int]:
    """Return for each class of the protocol the number of methods that a store must have."""
    path = next((package / one for one in PROTOCOL if (package / one).exists()), None)
    if path is None:
        return {}
    return {
        node.name: sum(
            isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_")
            for member in node.body
        )
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id.endswith(("Protocol", "Store")) for base in node.bases)
    }


def top_level(package: Path) -> tuple[int, int]:
    """Return the number of modules and of folders directly below the package."""
    entries = [entry for entry in package.iterdir() if not entry.name.startswith("__")]
    return sum(entry.suffix == ".py" for entry in entries), sum((entry / "__init__.py").exists() for entry in entries)


def lines_by_folder(package: Path) -> Counter[str]:
    """Return the number of lines of each folder of the package; "" is the top level."""
    found: Counter[str] = Counter()
    for path in python_files(package):
        parts = path.relative_to(package).parts
        found[parts[0] if len(parts) > 1 else ""] += len(path.read_text().splitlines())
    return found


def report(package: Path) -> Iterator[str]:
    """Yield every count as a line of text."""
    by_folder = lines_by_folder(package)
    members = protocol_members(package)
    files, folders = top_level(package)
    yield f"files                                  {len(python_files(package)):>7,}"
    yield f"lines                                  {sum(by_folder.values()):>7,}"
    yield f"members of the store protocol          {sum(members.values()):>7,}   {members}"
    yield f"modules with exactly one importer      {len(lonely_modules(package)):>7,}"
    yield f"top level: modules, folders            {files:>4} {folders:>3}"
    yield f"imports inside functions of cli/       {late_imports(package / 'cli'):>7,}"
    yield f"rows read by position (row[7])         {rows_by_position(package):>7,}"
    yield ""
    for folder, lines in by_folder.most_common():
        count = len(python_files(package / folder)) if folder else files
        yield f"  {folder or '(top level)':<16} {count:>4} files {lines:>8,} lines"


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src"
    print("\n".join(report(source / "onthedot")))
