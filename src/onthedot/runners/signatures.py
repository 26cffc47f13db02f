"""Checks a run's arguments against the signature and the annotations of its handler.

We check types that JSON has: `str int float bool None`, `Literal`, `Enum` of such values, and lists, tuples, mappings
and unions of these. Any other annotation accepts everything. For a decorated function we check only the names that its
decorator takes, because the decorator may convert values and add arguments.
"""

from __future__ import annotations

import enum
import inspect
import json
import types
import typing
from collections.abc import Callable, Hashable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from onthedot.model.errors import did_you_mean

Fits = Callable[[Any], bool]
_SCALARS = (str, int, float, bool, type(None))


class Signature:
    """The arguments that a function takes. Compiled at first use: by then the names in its annotations exist."""

    def __init__(self, function: Callable[..., Any], *, takes_context: bool) -> None:
        self._function = function
        self._positional = (None,) if takes_context else ()
        self._called = inspect.signature(function, follow_wrapped=False)
        self._parameters = list(self._called.parameters.values())[len(self._positional) :]
        kinds = {one.kind for one in self._parameters}
        self._is_open = inspect.Parameter.VAR_KEYWORD in kinds
        named = [one for one in self._parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        self._names = frozenset(one.name for one in named)
        self._required = frozenset(one.name for one in named if one.default is one.empty)
        self._plain = inspect.Parameter.POSITIONAL_ONLY not in kinds
        self._checks: dict[str, tuple[str, Fits]] | None = None

    def problem(self, arguments: Mapping[str, Any], *, complete: bool = True) -> str | None:
        """Return why the function cannot be called with these arguments (without `complete`: and perhaps more), or
        None."""
        checks = self._checks
        if checks is None:
            checks = self._checks = {} if hasattr(self._function, "__wrapped__") else self._compile()
        given = arguments.keys()
        fits = self._plain and (self._is_open or given <= self._names) and not (complete and self._required - given)
        if not fits:
            bind = self._called.bind if complete else self._called.bind_partial
            try:
                bind(*self._positional, **arguments)
            except TypeError as error:
                return str(error)
        wrong = [
            f"{name}: expected {checks[name][0]}, got {_shown(value)}"
            for name, value in arguments.items()
            if name in checks and not checks[name][1](value)
        ]
        return "; ".join(wrong) or None

    def lacks(self, name: str) -> str:
        """`", did you mean 'tenant'?"` if the function takes no argument of this name; else ""."""
        if self._is_open or name in self._names or hasattr(self._function, "__wrapped__"):
            return ""
        return did_you_mean(name, self._names) or "; it takes none"

    def __str__(self) -> str:
        return str(self._called)

    def _compile(self) -> dict[str, tuple[str, Fits]]:
        found = {}
        for one in self._parameters:
            if one.name not in self._names or one.annotation is one.empty:
                continue
            check = compiled(_resolved(self._function, one.name, one.annotation))
            if check is not None:
                found[one.name] = _or_none(check) if one.default is None else check
        return found


def compiled(hint: Any, within: frozenset[int] = frozenset()) -> tuple[str, Fits] | None:
    """Return the text for an annotation, and its check of a value; None if JSON values cannot be checked against it.

    `within`: the type aliases around it. An alias inside itself accepts everything.

    >>> words, fits = compiled(list[int] | None)
    >>> words, fits([1, 2]), fits(None), fits(["1"]), fits(True)
    ('list of int, or None', True, True, False, False)
    """
    if isinstance(hint, typing.NewType):
        return compiled(hint.__supertype__, within)
    if hasattr(hint, "__value__"):  # type Name = …
        value = hint.__value__
        return None if id(value) in within else compiled(value, within | {id(value)})
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return compiled(inner[0], within)
    if isinstance(hint, Hashable) and hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _one_of([member.value for member in hint]) if _is_closed(hint) else None
    if typing.is_typeddict(hint):
        return _PLAIN[dict]
    if origin is typing.Literal:
        return _one_of(inner)
    if origin in (typing.Union, types.UnionType):
        return _any_of([compiled(one, within) for one in inner])
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return _each_of([compiled(one, within) for one in inner])
    if origin in _LISTS and inner:
        return _all_in(_PLAIN[origin], compiled(inner[0], within))
    if origin in _MAPPINGS and len(inner) == 2:
        return _all_in(_PLAIN[dict], compiled(inner[1], within))
    return None


def _is_closed(kind: type[enum.Enum]) -> bool:
    """Return whether it accepts only its members. Flags can be combined, and `_missing_` may return a member."""
    return kind._missing_.__func__ is enum.Enum._missing_.__func__  # type: ignore[attr-defined]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple | str)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


_LISTS = (list, tuple, Sequence, MutableSequence)
_MAPPINGS = (dict, Mapping, MutableMapping)
_PLAIN: dict[Any, tuple[str, Fits]] = {
    str: ("str", lambda value: isinstance(value, str)),
    int: ("int", _is_int),
    float: ("float", _is_number),
    bool: ("bool", lambda value: isinstance(value, bool)),
    None: ("None", lambda value: value is None),
    type(None): ("None", lambda value: value is None),
    **dict.fromkeys((*_LISTS, typing.List, typing.Tuple), ("list", _is_list)),  # noqa: UP006 - users may write them so
    Sequence: ("sequence", _is_sequence),
    **dict.fromkeys((*_MAPPINGS, typing.Dict), ("dict", _is_mapping)),  # noqa: UP006
}


def _one_of(values: Sequence[Any]) -> tuple[str, Fits] | None:
    if not all(type(one) in _SCALARS for one in values):
        return None  # enum members in a Literal, and values that JSON does not have

    def fits(value: Any) -> bool:
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)

    return f"one of {', '.join(map(_shown, values))}", fits


def _any_of(checks: Sequence[tuple[str, Fits] | None]) -> tuple[str, Fits] | None:
    known = [one for one in checks if one is not None]
    if len(known) < len(checks):
        return None
    tests = [fits for _, fits in known]
    return _in_words([words for words, _ in known]), lambda value: any(fits(value) for fits in tests)


def _or_none(check: tuple[str, Fits]) -> tuple[str, Fits]:
    """Extend a check so that None is also valid, as in `size: int = None`."""
    words, fits = check
    return words, lambda value: value is None or fits(value)


def _each_of(checks: Sequence[tuple[str, Fits] | None]) -> tuple[str, Fits]:
    def fits(value: Any) -> bool:
        if not _is_list(value) or len(value) != len(checks):
            return False
        return all(check is None or check[1](one) for one, check in zip(value, checks, strict=True))

    inner = ", ".join("anything" if one is None else one[0] for one in checks)
    return f"list of {len(checks)} ({inner})", fits


def _all_in(outer: tuple[str, Fits], inner: tuple[str, Fits] | None) -> tuple[str, Fits]:
    """Return the check of lists with such elements, or of mappings with such values. In JSON the keys of a mapping are
    always text."""
    if inner is None:
        return outer
    is_one, fits = outer[1], inner[1]

    def all_fit(value: Any) -> bool:
        return is_one(value) and all(map(fits, value.values() if isinstance(value, Mapping) else value))

    return f"{outer[0]} of {inner[0]}", all_fit


def _in_words(words: Sequence[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)}, or {last}" if first else last


def _resolved(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    """Return the annotation. An annotation that is text is evaluated; if that fails, it is `Any`."""
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    try:
        return typing.get_type_hints(holder, globalns=getattr(function, "__globals__", {}))[name]
    except Exception:  # noqa: BLE001 - user code, whose names may exist for type checkers only
        return Any


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:80]}…"
