"""Everything that can be wrong with an HTTP call or a container, found before anything is stored.

Text with `${{ … }}` in it is filled in later, and is looked at again then; where nothing may be filled in,
`check_params.py` says so.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping

from onthedot.model.addresses import AddressRefused, read_url
from onthedot.model.task import Container, Http, Mount, Task

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_KEPT_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "accept-encoding"}
)
MOST_HEADERS = 100
_MOST_BODY = 256 * 1024
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_MARK = "${{"


def call_problems(task: Task) -> list[str]:
    """What is wrong with a task of these two kinds; nothing for others."""
    match task:
        case Http():
            return _http_problems(task)
        case Container():
            return _container_problems(task)
        case _:
            return []


def _is_text(value: object) -> bool:
    """A definition may come from a file or another program: what its type says is not what it has to be."""
    return isinstance(value, str)


def _is_status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599


def _http_problems(task: Http) -> list[str]:
    problems = []
    if _MARK not in task.url:  # else `check_params.py` says so
        try:
            read_url(task.url)
        except AddressRefused as error:
            problems.append(f"url: {error}")
    if task.method not in METHODS:
        problems.append(f"method: expected one of {', '.join(METHODS)}, got {task.method!r}")
    problems += _header_problems(task.headers)
    problems += [
        f"expect: expected statuses from 200 to 599, got {status!r}" for status in task.expect if not _is_status(status)
    ]
    return problems + _body_problems(task)


def _header_problems(headers: Mapping[str, str]) -> list[str]:
    problems = []
    if len(headers) > MOST_HEADERS:
        problems.append(f"headers: expected at most {MOST_HEADERS}, got {len(headers)}")
    for name, value in headers.items():
        if not HEADER.fullmatch(name):
            problems.append(f"headers: expected names such as X-Token, got {name!r}")
        elif name.lower() in _KEPT_HEADERS or name.lower().startswith("onthedot-"):
            problems.append(f"headers: expected none that is set for every request, got {name}; leave it out")
        elif not _is_text(value) or not _VALUE.fullmatch(value):
            problems.append(f"headers: expected one line of text for {name}, got something else")
    if len({name.lower() for name in headers}) < len(headers):
        problems.append("headers: expected each name once; upper and lower case are the same")
    return problems


def _body_problems(task: Http) -> list[str]:
    if task.body is None:
        return []
    if task.method in ("GET", "HEAD"):
        return [f"body: expected none with {task.method}, got one; choose POST, or leave it out"]
    try:
        size = len(json.dumps(task.body, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        return [f"body: expected JSON, got {type(task.body).__name__} ({error})"]
    return [f"body: expected at most {_MOST_BODY} characters of JSON, got {size}"] if size > _MOST_BODY else []


def _container_problems(task: Container) -> list[str]:
    problems = []
    if _MARK not in task.image and not IMAGE.fullmatch(task.image):
        problems.append(f"image: expected a name such as 'alpine:3' or 'registry/name@sha256:…', got {task.image!r}")
    if task.network in ("host", "slirp4netns", "pasta") or not NETWORK.fullmatch(task.network):
        problems.append(f"network: expected 'none', 'bridge' or the name of a network, got {task.network!r}")
    if task.user and not USER.fullmatch(task.user):
        problems.append(f"user: expected a name or number, or two as in '1000:1000', got {task.user!r}")
    problems += [
        f"argv: expected text without NUL, got {argument!r}"
        for argument in task.words
        if not _is_text(argument) or "\0" in argument
    ]
    problems += [
        f"env: expected names such as MODE and text without NUL and line breaks, got {name!r}"
        for name, value in task.env.items()
        if not _VARIABLE.fullmatch(name) or not _is_text(value) or any(mark in value for mark in "\0\r\n")
    ]
    for mount in task.mounts:
        problems += _mount_problems(mount)
    targets = [mount.target for mount in task.mounts]
    if len(set(targets)) < len(targets):
        problems.append("mounts: expected each target once")
    return problems


def _mount_problems(mount: Mount) -> list[str]:
    return [
        f"mounts.{what}: expected an absolute path in its shortest form, got {path!r}"
        for what, path in (("source", mount.source), ("target", mount.target))
        if not path.startswith("/") or posixpath.normpath(path) != path or "\0" in path or path.startswith("//")
    ] + (["mounts.target: expected a directory below '/', got '/' itself"] if mount.target == "/" else [])
