"""Reads the values of a job's keys from nodes: schedules, pauses, policies, parameters, and tasks without programs.

call: report                       # a handler that the workers' program has registered by this name
sleep: 5s
noop: true
http: https://example.org/hook     # or {url: …, method: POST, headers: {…}, body: …, expect: [200]}
container: alpine:3                # or {image: …, argv: […], env: {…}, network: …, mounts: […], …}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from onthedot.define.yaml_text import Node, NodeError, Place, is_null, named_values, raise_all, shown
from onthedot.model.after import After
from onthedot.model.duration import parse_duration
from onthedot.model.errors import DefinitionError
from onthedot.model.errors import shown as brief
from onthedot.model.job import CatchUp, Limit, Overlap, Pause, Rate, Retry, Schedule
from onthedot.model.task import Call, Container, Http, Mount, Noop, Param, Sleep, Task
from onthedot.schedules import parse
from onthedot.schedules.cron_parser import is_four_fields
from onthedot.schedules.instants import read_instant

RETRY = ("attempts", "backoff", "delay", "max_delay", "jitter", "on", "on_timeout", "when")
SCHEDULE = ("tz", "gap", "fold", "run_once", "seconds", "start", "end", "max_count", "jitter", "args", "id")
PAUSE = ("reason", "until")
MOST_REASON = 500
"""The most characters of a pause's reason."""
FORMS = ("cron", "every", "at", "in", "gap")
"""The keys that say when a schedule runs. `gap` beside `cron` is its rule for times that clocks skip."""


def _flags(node: Node, given: Mapping[str, Any], *names: str) -> None:
    """Flags must be true or false."""
    raise_all(
        [
            ((node.names or {})[name].at, f"{name}: expected true or false, got {given[name]!r}")
            for name in names
            if name in given and not isinstance(given[name], bool)
        ]
    )


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────


def read_schedules(names: Mapping[str, Node], *, four_fields: bool = False) -> tuple[Schedule, ...] | None:
    """The schedules of a job: `schedule` (one, or a list) or `schedules`, with `run_once` or `is_recurring`,
    and `tz`.

    `four_fields`: a cron expression of four fields begins with the second, as in the document that onthedot was made
    after. The same holds in a job that uses that document's words `run_once` or `is_recurring`. Elsewhere it needs
    `seconds: true`.
    """
    if "schedule" in names and "schedules" in names:
        raise NodeError(names["schedules"].at, "schedules: expected either 'schedule' or 'schedules', got both")
    given = names.get("schedule", names.get("schedules"))
    shared = _shared(names)
    four_fields = four_fields or "run_once" in names or "is_recurring" in names
    if given is None:
        for key in ("run_once", "is_recurring", "tz"):
            if key in names:
                raise NodeError(names[key].at, f"{key}: expected a schedule beside it, got none")
        return None
    schedules, found = [], []
    for node in given.items if given.items is not None else [given]:
        try:
            schedules.append(_schedule(node, shared, four_fields))
        except NodeError as error:
            found += error.problems
    raise_all(found)
    return tuple(schedules)


def _shared(names: Mapping[str, Node]) -> dict[str, Any]:
    """Options for all schedules of a job."""
    said: dict[str, Any] = {}
    if "tz" in names:
        said["tz"] = names["tz"].value
    flags = {key: names[key].value for key in ("run_once", "is_recurring") if key in names}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise NodeError(names[key].at, f"{key}: expected true or false, got {value!r}")
    once = {value if key == "run_once" else not value for key, value in flags.items()}
    if len(once) > 1:
        raise NodeError(names["is_recurring"].at, "is_recurring: expected the opposite of run_once, got the same")
    if True in once:
        said["run_once"] = True
    return said


def _schedule(node: Node, shared: dict[str, Any], four_fields: bool) -> Schedule:
    options, form = dict(shared), ""
    if node.names is None:
        text = node.text
    else:
        own = named_values(node, (*FORMS, *SCHEDULE))
        form = _form(node)
        text = _line(form, own.pop(form))
        options |= own
    if text is None:
        raise NodeError(node.at, f"schedule: expected a text such as '0 2 * * *' or 'every 10m', got {shown(node)}")
    if not all(isinstance(options.get(key, ""), str) for key in ("tz", "id")):
        raise NodeError(node.at, f"schedule: expected texts as tz and id, got {brief(options)}")
    if four_fields and form in ("", "cron") and is_four_fields(text):
        options.setdefault("seconds", True)
    try:
        return parse(text, **options)
    except DefinitionError as error:
        found = [(_at_option(node, form, problem), f"schedule: {problem}") for problem in error.problems]
        raise NodeError(*found[0], *found[1:]) from None
    except TypeError as error:
        raise NodeError(node.at, f"schedule: expected values of other kinds: {error}") from None


def _form(node: Node) -> str:
    forms = [form for form in FORMS if form in (node.names or {})]
    if "gap" in forms and forms[0] == "cron":
        forms.remove("gap")
    if len(forms) != 1:
        raise NodeError(node.at, f"schedule: expected one of {', '.join(FORMS)}, got {' and '.join(forms) or 'none'}")
    return forms[0]


def _line(form: str, value: Any) -> str:
    """The line for `parse`."""
    if form == "at" and isinstance(value, list):
        value = ", ".join(map(str, value))
    return str(value) if form == "cron" else f"{form} {value}"


def _at_option(node: Node, form: str, problem: str) -> Place:
    """The place of the option that a problem names; else of the key that says when."""
    key = problem.partition(":")[0]
    names = node.names or {}
    return names[key if key in names else form].at if form else node.at


# ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────────


def read_pause(node: Node) -> Pause:
    """`true`, `false`, or a mapping with `reason` and `until`."""
    if node.names is None:
        if not isinstance(node.value, bool):
            raise NodeError(
                node.at, f"paused: expected true, false, or a mapping with reason and until, got {shown(node)}"
            )
        return Pause(on=node.value)
    given = named_values(node, PAUSE)
    reason = node.names["reason"].text if "reason" in given else ""
    if reason is None or len(reason) > MOST_REASON or not reason.isprintable():
        at = node.names["reason"].at
        raise NodeError(at, f"paused.reason: expected one line of at most {MOST_REASON} characters")
    until = read_instant(node.names["until"].text or "", what="paused.until") if "until" in given else None
    return Pause(reason=reason, until=until)


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────


def _retry(node: Node) -> Any:
    if node.names is None:
        return node.value
    given = named_values(node, RETRY)
    _flags(node, given, "jitter", "on_timeout")
    if not isinstance(given.get("when", ""), str):
        raise NodeError(node.names["when"].at, f"retry.when: expected the name of a function, got {given['when']!r}")
    if isinstance(given.get("on"), list):
        given["on"] = [f"onthedot.ExitCode.{kind}" if type(kind) is int else kind for kind in given["on"]]
    return Retry(given.pop("attempts", 1), **given)


def _policy(policy: Callable[..., Any], first: str, *more: str) -> Callable[[Node], Any]:
    """Make a reader of a value alone, or of a mapping with `first` and other names."""

    def read(node: Node) -> Any:
        if node.names is None:
            return node.value
        given = named_values(node, (first, *more))
        if first not in given:
            raise NodeError(node.at, f"expected {first!r} among its keys")
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
    given = named_values(node, ("jobs", "any", "on"))
    jobs = given.pop("jobs", [])
    return After(*(jobs if isinstance(jobs, list) else [jobs]), **given)


def _params(node: Node) -> list[Param]:
    """A list of mappings, or names with a mapping or a default each."""
    if node.items is not None:
        return [_param(item, None) for item in node.items]
    if node.names is None:
        raise NodeError(node.at, "params: expected names with what they are, such as 'region: {choices: [eu, us]}'")
    return [_param(item, name) for name, item in node.names.items()]


def _param(node: Node, name: str | None) -> Param:
    if node.names is None:
        if name is None:
            raise NodeError(node.at, "params: expected a mapping with name and kind")
        return Param(name=name, kind=_kind_of(node.value), default=node.value)
    given = named_values(node, ("name", "kind", "default", "choices", "required", "pattern"), ("default",))
    _flags(node, given, "required")
    if not isinstance(given.get("kind", ""), str):
        raise NodeError(node.names["kind"].at, f"kind: expected a text such as 'whole', got {given['kind']!r}")
    if not isinstance(given.get("pattern", ""), str):
        raise NodeError(
            node.names["pattern"].at, f"pattern: expected a text such as 'v[0-9]+', got {given['pattern']!r}"
        )
    if name is not None and "name" in given:
        raise NodeError(node.names["name"].at, f"name: expected it once, got it within {name!r} again; leave it out")
    choices = given.pop("choices", [])
    if not isinstance(choices, list):
        raise NodeError(node.names["choices"].at, "choices: expected a list")
    named = given.pop("name", None) if name is None else name
    if not isinstance(named, str):
        raise NodeError(node.at, "params: expected a name for each, such as 'name: region'")
    return Param(name=named, choices=tuple(choices), **given)


def _kind_of(value: object) -> Any:
    if isinstance(value, bool):
        return "yes_or_no"
    if isinstance(value, int | float):
        return "whole" if isinstance(value, int) else "number"
    return "text"


OPTION_READERS: dict[str, Callable[[Node], Any]] = {
    "retry": _retry,
    "overlap": _policy(Overlap, "mode", "max_waiting", "max_running"),
    "catch_up": _policy(CatchUp, "mode", "limit", "window"),
    "concurrency": _policy(Limit, "most", "key", "name"),
    "rate": _rate,
    "after": _after,
    "params": _params,
}
"""The options that are not plain data."""


# ── tasks without programs ─────────────────────────────────────────────────────────────────────────────────────

HTTP = ("url", "method", "headers", "body", "expect")
CONTAINER = ("image", "argv", "env", "network", "mounts", "user", "entrypoint")
MOUNT = ("source", "target", "writable")


def read_delay(value: Any, what: str) -> timedelta:
    """A length of time that may be zero.

    >>> read_delay("0s", "delay"), read_delay("5s", "delay")
    (datetime.timedelta(0), datetime.timedelta(seconds=5))
    """
    if value == "0s" or (type(value) in (int, float) and value == 0):
        return timedelta(0)
    return parse_duration(value, what=what)


def _call(node: Node) -> Task:
    return Call(handler=_text("call", node))


def _sleep(node: Node) -> Task:
    return Sleep(duration=read_delay(node.value, "sleep"))


def _noop(node: Node) -> Task:
    if node.value is not True:
        raise NodeError(node.at, f"noop: expected true, got {shown(node)}")
    return Noop()


def _http(node: Node) -> Task:
    if node.text is not None:
        return Http(url=node.text)
    names = _names("http", node, HTTP, ("body",), needed="url")
    fields: dict[str, Any] = {key: _text(key, names[key]) for key in ("url", "method") if key in names}
    if "headers" in names:
        fields["headers"] = _texts_by_name("headers", names["headers"])
    if "body" in names:
        fields["body"] = names["body"].value
    if "expect" in names:
        expect = names["expect"].value
        fields["expect"] = tuple(expect) if isinstance(expect, list) else (expect,)
    return Http(**fields)


def _container(node: Node) -> Task:
    if node.text is not None:
        return Container(image=node.text)
    names = _names("container", node, CONTAINER, needed="image")
    texts = ("image", "network", "user", "entrypoint")
    fields: dict[str, Any] = {key: _text(key, names[key]) for key in texts if key in names}
    if "argv" in names:
        fields["argv"] = _texts("argv", names["argv"])
    if "env" in names:
        fields["env"] = _texts_by_name("env", names["env"])
    if "mounts" in names:
        if names["mounts"].items is None:
            raise NodeError(names["mounts"].at, f"mounts: expected a list of mounts, got {shown(names['mounts'])}")
        fields["mounts"] = tuple(_mount(one) for one in names["mounts"].items)
    return Container(**fields)


def _mount(node: Node) -> Mount:
    names = _names("mounts", node, MOUNT, needed="source")
    if "target" not in names:
        raise NodeError(node.at, "mounts: expected 'target' among its keys")
    writable = names["writable"].value if "writable" in names else False
    if not isinstance(writable, bool):
        raise NodeError(names["writable"].at, f"writable: expected true or false, got {writable!r}")
    return Mount(source=_text("source", names["source"]), target=_text("target", names["target"]), writable=writable)


def _names(
    what: str, node: Node, allowed: tuple[str, ...], may_be_null: tuple[str, ...] = (), *, needed: str
) -> dict[str, Node]:
    if node.names is None:
        raise NodeError(node.at, f"{what}: expected a mapping with {needed!r}, got {shown(node)}")
    named_values(node, allowed, may_be_null)
    if needed not in node.names:
        raise NodeError(node.at, f"{what}: expected {needed!r} among its keys")
    return node.names


def _text(what: str, node: Node) -> str:
    if not node.text or is_null(node):
        raise NodeError(node.at, f"{what}: expected a text, got {shown(node)}")
    return node.text


def _texts(what: str, node: Node) -> tuple[str, ...]:
    if node.items is None or any(item.text is None for item in node.items):
        raise NodeError(node.at, f"{what}: expected a list of texts, got {shown(node)}")
    return tuple(item.text or "" for item in node.items)


def _texts_by_name(what: str, node: Node) -> dict[str, str]:
    """The values exactly as they are written: `1.10` is no number here."""
    if node.names is None:
        raise NodeError(node.at, f"{what}: expected names with their values, got {shown(node)}")
    raise_all(
        [
            (value.at, f"{what}: expected a text for {name!r}, got {shown(value)}")
            for name, value in node.names.items()
            if value.text is None
        ]
    )
    return {name: value.text or "" for name, value in node.names.items()}


TASK_READERS: dict[str, Callable[[Node], Task]] = {
    "call": _call, "sleep": _sleep, "noop": _noop, "http": _http, "container": _container,
}  # fmt: skip
"""The reader of each task, by key."""
