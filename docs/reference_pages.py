"""Generates the pages of `reference/` from the code, when Sphinx starts. They are not in the repository.

Each function returns one page as Markdown. `PAGES` names them all; a test holds that no option, key, setting, command,
route, event, error or metric is missing.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click

import onthedot
from onthedot.define import options, schema
from onthedot.model import errors, events
from onthedot.model.job import Job
from onthedot.model.run import MOVES, RunState
from onthedot.model.verdict import OutcomeKind
from onthedot.settings import Settings

Row = Sequence[str]


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────────────────


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *(part for part in parts if part)]) + "\n"


def table(head: Row, rows: Iterable[Row]) -> str:
    lines = ["| " + " | ".join(one) + " |" for one in (head, ["---"] * len(head), *(map(_cell, row) for row in rows))]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """One line. A `|` would end the cell, also inside code."""
    return " ".join(text.split()).replace("|", "\\|")


def code(value: object) -> str:
    return f"`{value}`"


def short(value: object) -> object:
    """A default as one would write it, without the options of a policy."""
    if isinstance(value, Enum):
        return value.value
    if not is_dataclass(value):
        return value
    return f"{type(value).__name__}({getattr(value, fields(value)[0].name)!r})"


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: its examples become blocks of code."""
    parts: list[str] = []
    shown: list[str] = []
    inside = False
    for line in inspect.cleandoc(docstring or "").splitlines():
        if line.startswith(">>>"):
            inside = True
        elif inside and not line.strip():
            inside = False
        if inside:
            shown.append(line)
            continue
        if shown:
            parts.append(_fence("\n".join(shown)))
            shown = []
        parts.append(line)
    return "\n".join([*parts, _fence("\n".join(shown))] if shown else parts).strip()


def _fence(text: str, kind: str = "pycon") -> str:
    return f"\n```{kind}\n{text}\n```\n"


# ── what the source says ─────────────────────────────────────────────────────────────────────────────────────


class Documented(NamedTuple):
    """A field or option, the source of its type, and the text below it."""

    name: str
    kind: str
    default: str
    text: str


def documented(cls: type) -> list[Documented]:
    """The annotated names of a class, each with the text that follows it in the source."""
    [body] = [
        node.body for node in ast.parse(textwrap.dedent(inspect.getsource(cls))).body if isinstance(node, ast.ClassDef)
    ]
    found: list[Documented] = []
    waiting: list[Documented] = []
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            default = "" if node.value is None else ast.unparse(node.value)
            waiting.append(Documented(node.target.id, ast.unparse(node.annotation), default, ""))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and waiting:
            found += [one._replace(text=inspect.cleandoc(str(node.value.value))) for one in waiting]
            waiting = []
    return found + waiting


def public_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, in the order of the source, the class's own first."""
    seen: set[str] = set()
    for owner in cls.__mro__:
        if not owner.__module__.startswith("onthedot"):
            continue
        for name, value in vars(owner).items():
            plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if not name.startswith("_") and name not in seen and (inspect.isfunction(plain) or hasattr(plain, "fget")):
                seen.add(name)
                yield name, plain


def signature_of(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"
    text = re.sub(r"\b(?:onthedot|typing|collections\.abc|datetime|pathlib)\.(?:[a-z_]+\.)*", "", text)
    return text.replace("(self, ", "(").replace("(self)", "()")


# ── the pages ────────────────────────────────────────────────────────────────────────────────────────────────


def jobs() -> str:
    """The keyword arguments of `Scheduler.job`, `.command` and `.steps`."""
    defaults = {one.name: one.default for one in fields(Job) if one.default is not MISSING}
    defaults |= {"max_recoveries": Job.__dataclass_fields__["max_recoveries"].default}

    def listed(cls: type) -> str:
        rows = []
        for one in documented(cls):
            default = defaults.get(one.name)
            shown = "" if default in (None, "", ()) or isinstance(default, list) else code(short(default))
            rows.append([code(one.name), one.text, code(one.kind), shown])
        return table(["option", "meaning", "type", "default"], rows)

    return page(
        "Job options",
        "The keyword arguments of `Scheduler.job(…)`, `Scheduler.command(…)` and `Scheduler.steps(…)`. Files have "
        "[keys for the same options](files.md).",
        "## Every job",
        listed(options.JobOptions),
        "## Jobs that call a function: `Scheduler.job`",
        listed(options.HandlerOptions),
        "## Jobs that run programs: `Scheduler.command`, `Scheduler.steps`",
        listed(options.ProgramOptions),
    )


def files() -> str:
    """The keys of a file of jobs, from its JSON Schema."""
    document = schema.file_schema()
    parts = [_keys(document, document["properties"])]
    for name in _linked(document):
        parts += _mapping(name, document["$defs"][name], 2)
    return page(
        "Keys of job files",
        "A file of jobs is YAML or JSON: `jobs:` and a list. `onthedot check FILE` reports every mistake.",
        "[Jobs as files](../guides/files.md) is the guide. `onthedot check --schema` prints a schema for editors.",
        *parts,
    )


def _linked(document: Mapping[str, Any]) -> list[str]:
    """The definitions that have a section of their own."""
    return [name for name, one in document["$defs"].items() if _described(one)]


def _mapping(path: str, one: Mapping[str, Any], level: int) -> Iterator[str]:
    """The keys of a mapping as a section, and those of the mappings in it."""
    properties = _described(one)
    yield f"(key-{path})=\n\n{'#' * level} {path}"
    yield _keys(one, properties)
    for key, value in properties.items():
        if _described(value):
            yield from _mapping(f"{path}.{key}" if level > 2 or path != "job" else key, value, level + 1)


def _described(one: Mapping[str, Any]) -> dict[str, Any]:
    """The keys with a description, of a mapping in whichever of its forms."""
    found: dict[str, Any] = {}
    for part in _objects(one):
        for key, value in part.get("properties", {}).items():
            if isinstance(value, dict) and "description" in value:
                found.setdefault(key, value)
    return found


def _objects(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield one
    for way in ("anyOf", "oneOf", "allOf"):
        for part in one.get(way, ()):
            yield from _objects(part)
    for way in ("items", "additionalProperties"):
        if isinstance(one.get(way), dict):
            yield from _objects(one[way])


def _keys(owner: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    forms = [
        set(part.get("required", ()))
        for part in _objects(owner)
        if _described({"properties": part.get("properties", {})})
    ]
    required = set.intersection(*forms) if forms else set()
    rows = [
        [
            code(key) + (" (required)" if key in required else ""),
            _kind(value),
            value["description"],
            ", ".join(code(_yaml(one)) for one in value.get("examples", ())[:2]),
        ]
        for key, value in properties.items()
    ]
    return table(["key", "value", "meaning", "examples"], rows)


def _yaml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(value: Mapping[str, Any]) -> str:
    """The kind of a value in a few words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#key-{name})" if name in _linked(schema.file_schema()) else name
    if "enum" in value:
        return ", ".join(code(one) for one in value["enum"])
    for way in ("anyOf", "oneOf"):
        if way in value:
            kinds = [_kind(one) for one in value[way]]
            return " or ".join(dict.fromkeys(one for one in kinds if one and one != "null")) or "any"
    if value.get("type") == "array":
        return f"list of {_kind(value.get('items', {}))}"
    kind: Any = value.get("type", "any")
    if isinstance(kind, list):
        return "text" if "string" in kind else " or ".join(kind)  # in a file a number may replace a text
    names = {"object": "mapping", "string": "text", "boolean": "true or false"}
    return names.get(kind, str(kind))


def settings() -> str:
    """Every setting of a node."""
    return page(
        "Settings",
        "`otd.Scheduler(url, settings=otd.Settings(seats=8))`. Lengths of time are `Micros`: microseconds; `SECOND` is "
        "1,000,000 of them. Many have a flag of `onthedot up`, `worker` and `server`: see [the command line](cli.md).",
        _fields("setting", Settings),
    )


def cli() -> str:
    """Every command, as `--help` prints it."""
    from onthedot.cli.main import cli as root

    parts = []
    for path, command in commands(root):
        help_text = command.get_help(click.Context(command, info_name=" ".join(path), terminal_width=110))
        level = "##" if len(path) == 2 else "###"
        parts += [f"{level} {' '.join(path)}", f"```text\n{help_text}\n```"]
    return page("Command line", "Each command prints this with `--help`. Every command has `--json`.", *parts)


def commands(
    root: click.Command, path: tuple[str, ...] = ("onthedot",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group, with the words that call it."""
    if isinstance(root, click.Group):
        context = click.Context(root)
        for name in root.list_commands(context):
            command = root.get_command(context, name)
            if command is not None and not command.hidden:
                yield (*path, name), command
                yield from commands(command, (*path, name))


METHODS = ("get", "post", "put", "patch", "delete")


def http() -> str:
    """Every route of the HTTP API, from its OpenAPI document."""
    from onthedot.server.app import describe_api

    document: Any = describe_api()
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                tag = next(iter(operations[method].get("tags", ())), "other")
                groups.setdefault(tag, []).append(_operation(path, method, operations[method], document))
    return page(
        "HTTP API",
        "Send a key with each request: `Authorization: Bearer otd_…`. `onthedot keys create NAME` makes one. "
        "Errors are `application/problem+json`. A server shows this page at `/docs`. It has the OpenAPI document at "
        "`/openapi.json`; `onthedot openapi` prints it, too.",
        *(f"## {tag}\n\n" + "\n\n".join(texts) for tag, texts in groups.items()),
    )


def _operation(path: str, method: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    permission = operation.get("x-permission")
    needs = f"Needs the permission `{permission}`." if permission else "Needs no key."
    rows = [
        [code(one["name"]), one["in"], _kind(one.get("schema", {})), one.get("description", "")]
        for one in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {})
    for body in [one.get("schema", {}) for one in content.values()][:1]:
        for one in _resolved(body, document):
            rows += [
                [code(key), "body", _kind(value), value.get("description", "")]
                for key, value in one.get("properties", {}).items()
            ]
    answers = ", ".join(f"{status}" for status in operation.get("responses", ()))
    text = (operation.get("description") or operation.get("summary") or "").strip()
    parts = [f"### `{method.upper()} {path}`", text, f"{needs} Answers: {answers}."]
    return "\n\n".join([*parts, table(["name", "in", "type", "meaning"], rows)] if rows else parts)


def _resolved(value: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "$ref" in value:
        found: Any = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        yield from _resolved(found, document)
        return
    yield value
    for way in ("anyOf", "allOf", "oneOf"):
        for one in value.get(way, ()):
            yield from _resolved(one, document)


def python() -> str:
    """Every public name of the package `onthedot`, with its docstring."""
    functions, classes = [], []
    for name in onthedot.__all__:
        value = getattr(onthedot, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            continue  # on the page of errors
        if inspect.isclass(value):
            classes.append(_class(name, value))
        else:
            functions.append(f"### `{name}{signature_of(value)}`\n\n{prose(value.__doc__)}")
    return page(
        "Python API",
        "`import onthedot as otd`. Every name below is `otd.NAME`. [Errors](errors.md) and "
        "[job options](jobs.md) have pages of their own.",
        "## Functions",
        *functions,
        "## Classes",
        *classes,
    )


def _class(name: str, cls: type) -> str:
    parts = [f"### {name}"]
    shape = "" if issubclass(cls, Enum) else signature_of(cls)
    if shape not in ("", "(…)", "(*args, **kwargs)"):
        parts.append(_fence(f"{name}{shape}", "python").strip())
    parts.append(prose(cls.__dict__.get("__doc__")))
    if issubclass(cls, Enum):
        parts.append(", ".join(code(member.value) for member in cls))
    if is_dataclass(cls) and cls is not Settings:
        rows = [
            [code(one.name), one.text, code(one.kind), code(one.default) if one.default else ""]
            for one in documented(cls)
        ]
        parts.append(table(["field", "meaning", "type", "default"], rows) if rows else "")
    for member, value in public_members(cls):
        if hasattr(value, "fget") or not callable(value):
            function = getattr(value, "fget", None) or getattr(value, "func", None)
            parts.append(f"#### `{name}.{member}`\n\n{prose(getattr(function, '__doc__', ''))}")
        else:
            parts.append(f"#### `{name}.{member}{signature_of(value)}`\n\n{prose(value.__doc__)}")
    return "\n\n".join(part for part in parts if part)


def _fields(what: str, cls: type) -> str:
    """A table of the fields of a dataclass."""
    rows = [
        [code(one.name), one.text, code(one.kind), code(one.default) if one.default else ""] for one in documented(cls)
    ]
    return table([what, "meaning", "type", "default"], rows) if rows else ""


STATES = {
    RunState.SCHEDULED: "It waits: for its instant, a gate (overlap, limit, rate) or a worker.",
    RunState.RESERVED: "A worker has taken it, up to two seconds before its instant. No user code has run.",
    RunState.RUNNING: "An attempt is executing.",
    RunState.SUCCEEDED: "It ended well. It is never executed again.",
    RunState.DEAD: "It failed for good: no attempts are left, or its error is not retried. It is a dead letter.",
    RunState.CANCELLED: "Somebody cancelled it.",
    RunState.LOST: "Its node died during an attempt, and its guarantee or `max_recoveries` forbids another one.",
    RunState.SKIPPED: "It will not run; the reason is recorded.",
}

OUTCOMES = {
    OutcomeKind.SUCCEEDED: "The handler returned, or the program ended with exit code 0.",
    OutcomeKind.FAILED: "The handler raised an error, or the program ended with another exit code or a signal.",
    OutcomeKind.TIMED_OUT: "It took longer than the job's `timeout`.",
    OutcomeKind.CANCELLED: "It was stopped because somebody cancelled the run.",
    OutcomeKind.RELEASED: "The worker gave the run back before user code began.",
    OutcomeKind.LOST: "The lease of its node ended during the attempt.",
}

SKIPS = {
    "missed": "It could not start in time: no node or worker was there, or the store was down. See `catch_up`.",
    "overlap": "An earlier run of the job had not ended, and `overlap` is `skip`.",
    "replaced": "A newer run took its place, and `overlap` is `replace`.",
    "paused": "The job was paused.",
    "moved": "Somebody moved the slot. A run at the new instant stands for it.",
    "cancelled": "Somebody left the slot out (`skip-next`).",
    "edited": "The job was edited, and the new definition does not have the slot.",
}


def states() -> str:
    """States of runs, outcomes of attempts, reasons of skips."""
    return page(
        "States and reasons",
        "## States of a run",
        table(
            ["state", "meaning", "next states"],
            [
                [code(state), STATES[state], ", ".join(code(one) for one in sorted(MOVES[state])) or "final"]
                for state in RunState
            ],
        ),
        "## Outcomes of an attempt",
        table(["outcome", "meaning"], [[code(kind), OUTCOMES[kind]] for kind in OutcomeKind]),
        "## Why a slot is skipped",
        "`onthedot skips` lists them; [guarantees](../guarantees.md) has the rules.",
        table(["reason", "meaning"], [[code(reason), text] for reason, text in SKIPS.items()]),
    )


def events_page() -> str:
    """Every event that a subscriber gets."""
    parts = []
    for cls in get_args(events.Event):
        names = ", ".join(code(name) for name in getattr(cls, "_fields", ()))
        parts.append(f"## {cls.__name__}\n\n{prose(cls.__doc__)}\n\nFields: {names or 'none'}.")
    return page(
        "Events",
        "`sched.subscribe(function)` calls a function with each event of the node, on a thread of its own. "
        "`GET /api/v1/events` streams those that concern runs. Metrics count them by name.",
        *parts,
    )


def errors_page() -> str:
    """Every error that onthedot raises on purpose."""
    found: dict[str, Any] = dict(inspect.getmembers(errors, inspect.isclass))
    found |= {name: getattr(onthedot, name) for name in onthedot.__all__}
    rows = []
    for name, cls in sorted(found.items()):
        if inspect.isclass(cls) and issubclass(cls, errors.OnTheDotError):
            where = f"otd.{name}" if name in onthedot.__all__ else f"{cls.__module__}.{name}"
            meaning = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
            rows.append([code(where), code(cls.__mro__[1].__name__), meaning])
    return page(
        "Errors",
        "Every error says what was expected, what came, and what to do next. All inherit from `otd.OnTheDotError`. "
        "The HTTP API names the same error in the field `error` of a problem, and `otd.Client` raises it again.",
        table(["error", "inherits from", "raised when"], rows),
    )


def metrics() -> str:
    """Every metric, with its labels."""
    from onthedot.observe.counters import Counters
    from onthedot.observe.metrics import NodeMetrics, Snapshot

    def rows(found: Iterable[Any]) -> list[Row]:
        return [
            [code(one.name + ("_total" if one.type == "counter" else "")), one.type, one.documentation] for one in found
        ]

    head = ["metric", "type", "meaning"]
    return page(
        "Metrics",
        "[Metrics](../operate/metrics.md) is the guide: where they are read, and which alerts to set.",
        "## Of one node, since its process began",
        table(head, rows(NodeMetrics(Counters()).collect())),
        "## Of the cluster, read from the store",
        table(head, rows(Snapshot(0, [], 1, []).collect())),
    )


PAGES: dict[str, Callable[[], str]] = {
    "jobs": jobs,
    "files": files,
    "settings": settings,
    "cli": cli,
    "http": http,
    "python": python,
    "states": states,
    "events": events_page,
    "errors": errors_page,
    "metrics": metrics,
}


def write(folder: Path) -> None:
    """Write all pages. One that has not changed keeps its time, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        path, text = folder / f"{name}.md", make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True}
