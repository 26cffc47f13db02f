"""Writes plain data as YAML 1.2 for people. `nodes.py` reads it back as the same data.

Long texts are blocks, short lists are on one line. A text has no quotes only if no reader of YAML 1.1 or 1.2 could take
it for something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_BARE = re.compile(r"[A-Za-z_/.][A-Za-z0-9_./@+=-]*(?: [A-Za-z0-9_./@+=-]+)*")
_NOT_BARE = re.compile(
    r"null|true|false|yes|no|on|off|y|n|\.inf|\.nan|[.+-]?[0-9._]*(?:e[+-]?[0-9]+)?|\.*|-.*", re.IGNORECASE
)
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_WIDTH = 100
_LONGEST_KEY = 500  # beyond some 1,000 characters YAML wants a mark in front of a key


def yaml_text(data: Any) -> str:
    """The text, with a line break at its end.

    >>> print(yaml_text({"jobs": [{"name": "a", "argv": ["ls", "-l"], "run": "one\\ntwo\\n"}]}), end="")
    jobs:
      - name: a
        argv: [ls, "-l"]
        run: |
          one
          two
    """
    return "\n".join(_lines(data)) + "\n"


def _lines(value: Any) -> list[str]:
    """The lines of a value that begins on its own line."""
    if isinstance(value, dict) and value:
        return [line for key, inner in value.items() for line in _entry(str(key), inner)]
    if isinstance(value, list) and value and _flow(value) is None:
        return [line for inner in value for line in _item(inner)]
    return [_flow(value) or _quoted(value)]


def _entry(key: str, value: Any) -> Iterator[str]:
    if len(key) > _LONGEST_KEY:
        yield f"? {_quoted(key)}"
        name = ""
    else:
        name = key if _BARE_KEY.fullmatch(key) and key.lower() not in ("null", "true", "false") else _quoted(key)
    block = _block(value)
    if block is not None:
        yield f"{name}: {block[0]}"
        yield from (f"  {line}" if line else "" for line in block[1:])
        return
    flow = _flow(value)
    if flow is not None:
        yield f"{name}: {flow}"
        return
    yield f"{name}:"
    yield from (f"  {line}" if line else "" for line in _lines(value))


def _item(value: Any) -> Iterator[str]:
    block = _block(value)
    first, *rest = block if block is not None else _lines(value)
    yield f"- {first}"
    yield from (f"  {line}" if line else "" for line in rest)


def _block(value: Any) -> list[str] | None:
    """A text of several lines as a block, if YAML keeps it as it is."""
    if not isinstance(value, str) or ("\n" not in value.rstrip("\n") and not value.endswith("\n")):
        return None
    body, ending = (value[:-1], "|") if value.endswith("\n") else (value, "|-")
    lines = body.split("\n")
    plain = all(line.replace("\t", "").isprintable() for line in lines)
    if (
        not plain
        or not lines[-1]
        or lines[0][:1] in ("", " ", "\t")
        or any(line and not line.strip() for line in lines)
    ):
        return None
    return [ending, *(f"{line}" for line in lines)]


def _flow(value: Any) -> str | None:
    """A value on one line; None if it does not fit."""
    if isinstance(value, dict):
        if not value:
            return "{}"
        if any((isinstance(inner, dict | list) and inner) or len(key) > 100 for key, inner in value.items()):
            return None
        text = "{" + ", ".join(f"{_flow_key(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
        return text if len(text) <= _WIDTH and len(value) <= 4 and "name" not in value else None
    if isinstance(value, list):
        inner = [_flow(item) for item in value]
        if any(item is None or isinstance(one, dict) for item, one in zip(inner, value, strict=True)):
            return None
        text = f"[{', '.join(map(str, inner))}]"
        return text if len(text) <= _WIDTH else None
    return _scalar(value)


def _flow_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) and not _NOT_BARE.fullmatch(key) else _quoted(key)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if len(value) <= 500 and _BARE.fullmatch(value) and not _NOT_BARE.fullmatch(value):
        return value
    return _quoted(value)


def _quoted(value: Any) -> str:
    """JSON is YAML, except for characters that YAML does not allow as they are."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
