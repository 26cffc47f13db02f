"""The options of a job as a YAML file has them: a short form, or a mapping of the names that the policy takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onthedot.after import After
from onthedot.define.yaml_nodes import Node, Place
from onthedot.errors import DefinitionError, did_you_mean
from onthedot.job import CatchUp, Limit, Overlap, Rate, Retry, Schedule
from onthedot.schedules import parse
from onthedot.task import Param

_RETRY = ("attempts", "backoff", "delay", "max_delay", "jitter", "on", "on_timeout")
_SCHEDULE = ("tz", "gap", "fold", "run_once", "start", "end", "max_count", "jitter", "args", "id")
_FORMS = ("cron", "every", "at", "in")


class Trouble(Exception):
    """A problem, and its place."""

    def __init__(self, at: Place, problem: str) -> None:
        super().__init__(problem)
        self.at = at
        self.problem = problem


def check_names(node: Node, allowed: tuple[str, ...]) -> Iterator[Trouble]:
    """A problem for each name that is not known here."""
    for name, at in node.places.items():
        if name not in allowed:
            yield Trouble(at, f"unknown key {name!r}{did_you_mean(name, allowed)}")


def _mapping(node: Node, allowed: tuple[str, ...]) -> dict[str, Any]:
    for trouble in check_names(node, allowed):
        raise trouble
    value: dict[str, Any] = node.value
    return value


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────


def read_schedules(names: Mapping[str, Node]) -> tuple[Schedule, ...] | None:
    """Those of a job: `schedule` (one, or a list) or `schedules`, with `run_once` or `is_recurring`, and `tz`."""
    if "schedule" in names and "schedules" in names:
        raise Trouble(names["schedules"].at, "schedules: expected either 'schedule' or 'schedules', got both")
    given = names.get("schedule", names.get("schedules"))
    shared = _shared(names)
    if given is None:
        for key in ("run_once", "is_recurring", "tz"):
            if key in names:
                raise Trouble(names[key].at, f"{key}: expected a schedule beside it, got none")
        return None
    return tuple(_schedule(node, shared) for node in (given.items if given.items is not None else [given]))


def _shared(names: Mapping[str, Node]) -> dict[str, Any]:
    """What is said once for all schedules of a job."""
    said: dict[str, Any] = {}
    if "tz" in names:
        said["tz"] = names["tz"].value
    flags = {key: names[key].value for key in ("run_once", "is_recurring") if key in names}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise Trouble(names[key].at, f"{key}: expected true or false, got {value!r}")
    once = {value if key == "run_once" else not value for key, value in flags.items()}
    if len(once) > 1:
        raise Trouble(names["is_recurring"].at, "is_recurring: expected the opposite of run_once, got the same")
    if True in once:
        said["run_once"] = True
    return said


def _schedule(node: Node, shared: dict[str, Any]) -> Schedule:
    options = dict(shared)
    if node.names is None:
        text = node.text
    else:
        own = _mapping(node, (*_FORMS, *_SCHEDULE))
        forms = [form for form in _FORMS if form in own]
        if len(forms) != 1:
            raise Trouble(
                node.at, f"schedule: expected one of {', '.join(_FORMS)}, got {' and '.join(forms) or 'none'}"
            )
        form = forms[0]
        text = str(own.pop(form)) if form == "cron" else f"{form} {own.pop(form)}"
        options |= own
    if text is None:
        raise Trouble(node.at, "schedule: expected a text such as '0 2 * * *' or 'every 10m', got a list")
    try:
        return parse(text, **options)
    except DefinitionError as error:
        raise Trouble(node.at, f"schedule: {'; '.join(error.problems)}") from None
    except TypeError as error:
        raise Trouble(node.at, f"schedule: expected values of other kinds: {error}") from None


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────


def _retry(node: Node) -> Any:
    if node.names is None:
        return node.value
    given = _mapping(node, _RETRY)
    if isinstance(given.get("on"), list):
        given["on"] = [f"onthedot.ExitCode.{kind}" if type(kind) is int else kind for kind in given["on"]]
    return Retry(given.pop("attempts", 1), **given)


def _policy(policy: Callable[..., Any], first: str, *more: str) -> Callable[[Node], Any]:
    """A reader of a value by itself, or of a mapping with `first` and other names."""

    def read(node: Node) -> Any:
        if node.names is None:
            return node.value
        given = _mapping(node, (first, *more))
        if first not in given:
            raise Trouble(node.at, f"expected {first!r} among its keys")
        return policy(given.pop(first), **given)

    return read


def _rate(node: Node) -> Any:
    """`100`, `"5/1s"` or a mapping."""
    if isinstance(node.value, str) and "/" in node.value:
        most, _, per = node.value.partition("/")
        return Rate(int(most) if most.strip().isdigit() else most, per.strip())  # type: ignore[arg-type]  # checked there
    return _policy(Rate, "most", "per", "burst", "key", "name")(node)


def _after(node: Node) -> Any:
    if node.names is None:
        return node.value
    given = _mapping(node, ("jobs", "any", "on"))
    jobs = given.pop("jobs", [])
    return After(*(jobs if isinstance(jobs, list) else [jobs]), **given)


def _params(node: Node) -> list[Param]:
    """A list of mappings, or names with a mapping or a default each."""
    if node.items is not None:
        return [_param(item, None) for item in node.items]
    if node.names is None:
        raise Trouble(node.at, "params: expected names with what they are, such as 'region: {choices: [eu, us]}'")
    return [_param(item, name) for name, item in node.names.items()]


def _param(node: Node, name: str | None) -> Param:
    if node.names is None:
        if name is None:
            raise Trouble(node.at, "params: expected a mapping with name and kind")
        return Param(name=name, kind=_kind_of(node.value), default=node.value)
    given = _mapping(node, ("name", "kind", "default", "choices", "required"))
    choices = given.pop("choices", [])
    if not isinstance(choices, list):
        raise Trouble(node.names["choices"].at, "choices: expected a list")
    named = given.pop("name", None) if name is None else name
    if not isinstance(named, str):
        raise Trouble(node.at, "params: expected a name for each, such as 'name: region'")
    return Param(name=named, choices=tuple(choices), **given)


def _kind_of(value: object) -> Any:
    if isinstance(value, bool):
        return "yes_or_no"
    if isinstance(value, int | float):
        return "whole" if isinstance(value, int) else "number"
    return "text"


READERS: dict[str, Callable[[Node], Any]] = {
    "retry": _retry,
    "overlap": _policy(Overlap, "mode", "max_waiting", "max_running"),
    "catch_up": _policy(CatchUp, "mode", "limit", "window"),
    "concurrency": _policy(Limit, "most", "key", "name"),
    "rate": _rate,
    "after": _after,
    "params": _params,
}
"""Options that are more than plain data."""
