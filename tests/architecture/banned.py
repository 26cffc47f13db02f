"""Finds forbidden names in a file by its syntax tree.

Names are resolved through the imports of the file, so that `from datetime import datetime as dt; dt.now()` is found. A
reference counts like a call: `default_factory=time.time` reads the clock too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, order=True)
class Finding:
    line: int
    name: str
    instead: str

    def at(self, path: str) -> str:
        return f"{path}:{self.line}: `{self.name}` is banned here; use {self.instead}"


def imported_names(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield (line, local name, full dotted name) of every absolute import, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield node.lineno, alias.asname or top, alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield node.lineno, alias.asname or alias.name, f"{node.module}.{alias.name}"


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of every absolute import statement, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


def used_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, full dotted name) of every import and every use of an imported name."""
    full_names: dict[str, str] = {}
    for line, local, full in imported_names(tree):
        full_names[local] = full
        yield line, full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            dotted = _dotted(node)
            if dotted is None:
                continue
            head, _, rest = dotted.partition(".")
            if head in full_names:
                yield node.lineno, f"{full_names[head]}.{rest}" if rest else full_names[head]


def banned_uses(tree: ast.AST, banned: dict[str, str]) -> list[Finding]:
    """Return uses whose full name matches a pattern of `banned` (pattern -> what to use instead)."""
    findings = {
        Finding(line, name, instead)
        for line, name in used_names(tree)
        for pattern, instead in banned.items()
        if fnmatchcase(name, pattern)
    }
    return sorted(findings)


def banned_imports(tree: ast.AST, banned: dict[str, str]) -> list[Finding]:
    """Return imports of the modules in `banned`, or of anything inside them."""
    findings = {
        Finding(line, f"import {module}", instead)
        for line, module in imported_modules(tree)
        for top, instead in banned.items()
        if module == top or module.startswith(f"{top}.")
    }
    return sorted(findings)


def banned_builtins(tree: ast.AST, banned: dict[str, str]) -> list[Finding]:
    """Return calls of the built-in functions in `banned`."""
    return sorted(
        Finding(node.lineno, f"{node.func.id}()", banned[node.func.id])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in banned
    )


def swallowed_errors(tree: ast.AST) -> list[Finding]:
    """Return bare excepts, and handlers that catch every error and ignore it."""
    findings = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                findings.append(Finding(node.lineno, "except:", "the narrowest error that can be handled"))
            elif _is_everything(node.type) and all(_does_nothing(stmt) for stmt in node.body):
                name = f"except {ast.unparse(node.type)}: {ast.unparse(node.body[-1])}"
                findings.append(Finding(node.lineno, name, "a narrow error, or record what was caught"))
        elif isinstance(node, ast.Call) and _is_suppress(node) and any(map(_is_everything, node.args)):
            findings.append(Finding(node.lineno, ast.unparse(node), "suppress with a narrow error"))
    return sorted(findings)


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _is_everything(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return any(_is_everything(element) for element in node.elts)
    return (_dotted(node) or "").removeprefix("builtins.") in {"Exception", "BaseException"}


def _is_suppress(node: ast.Call) -> bool:
    return (_dotted(node.func) or "").rpartition(".")[2] == "suppress"


def _does_nothing(stmt: ast.stmt) -> bool:
    if isinstance(stmt, ast.Pass | ast.Continue):
        return True
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
