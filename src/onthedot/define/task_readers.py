"""Reads the tasks that are no programs from nodes: `call`, `sleep`, `noop`, `http` and `container`.

call: report              # a handler that the workers' program has registered by this name
sleep: 5s
noop: true
http: https://example.org/hook     # or {url: …, method: POST, headers: {…}, body: …, expect: [200]}
container: alpine:3                # or {image: …, argv: […], env: {…}, network: …, mounts: […], …}
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from onthedot.define.nodes import Node, NodeError, is_null, named_values, raise_all, shown
from onthedot.model.duration import parse_duration
from onthedot.model.task import Call, Container, Http, Mount, Noop, Sleep, Task

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


READERS: dict[str, Callable[[Node], Task]] = {
    "call": _call, "sleep": _sleep, "noop": _noop, "http": _http, "container": _container,
}  # fmt: skip
"""The reader of each task, by key."""
