"""Translates Redis errors: which calls can be retried, and which cannot."""

from __future__ import annotations

import json
from collections.abc import Callable

from redis import exceptions

from onthedot.model.after import cycle_error
from onthedot.model.errors import (
    KeyConflict,
    LayoutConflict,
    NodeExpired,
    RevisionConflict,
    SlotSettled,
    StoreUnavailable,
    StoreUnusable,
    TermLost,
    UnknownJob,
    UnknownSlot,
    WindowStale,
)

TROUBLE = (exceptions.RedisError, OSError, TimeoutError)
"""The errors of a server and of the connection to it."""

REFUSED = "OTD "
"""The prefix of errors that our own scripts raise. A JSON list follows: the kind, and its details."""

# By the first word of the error: what happened, and what to do.
_WILL_NOT = {
    "WRONGPASS": ("it does not let this user in", "look at user and password"),
    "NOAUTH": ("it requires a user and a password", "add them to the URL"),
    "NOPERM": ("this user may not do that", "grant it the keys and commands of the store (see docs/operate/redis.md)"),
    "WRONGTYPE": ("its keys have other types than this version writes", "name another prefix, or restore a backup"),
    "NOPROTO": ("it does not support our protocol", "use Redis 7 or Valkey, or a later one"),
}
_MAY_PASS = {
    "OOM": ("its memory is full", "raise maxmemory, or keep fewer finished runs"),
    "LOADING": ("it is still reading its files", "ask again"),
    "BUSY": ("it is busy with a long script", "ask again"),
    "READONLY": ("it accepts no writes, because it is a replica", "name the primary, or wait until it is one"),
    "MASTERDOWN": ("it is a replica without a connection to its primary", "ask again"),
    "NOREPLICAS": ("too few of its replicas are connected", "look at them; ask again"),
    "MISCONF": ("it cannot write its files", "look at its disk and its log"),
    "CLUSTERDOWN": ("its cluster is down", "look at its log; ask again"),
}


class Refusal(Exception):
    """A script refused the request. The caller turns this into its own error."""

    def __init__(self, kind: str, details: list[object]) -> None:
        super().__init__(kind, details)
        self.kind, self.details = kind, details


_OURS: dict[str, Callable[[str], Exception]] = {
    "UnknownJob": UnknownJob,
    "UnknownSlot": UnknownSlot,
    "SlotSettled": SlotSettled,
    "RevisionConflict": RevisionConflict,
    "LayoutConflict": LayoutConflict,
    "NodeExpired": NodeExpired,
    "TermLost": TermLost,
}


def refusal(message: str) -> Exception:
    """Our error for an error that a script raised."""
    [kind, *details], _ = json.JSONDecoder().raw_decode(message, len(REFUSED))
    if kind in _OURS:
        return _OURS[kind](details[0])
    if kind == "WindowStale":
        return WindowStale(details[0], watermark=int(details[1]), now=int(details[2]))
    if kind == "KeyConflict":
        return KeyConflict(f"key {details[1]!r}: {details[0]}")
    if kind == "DependencyCycle":
        return cycle_error(details[0])
    return Refusal(kind, details)


def is_broken(error: BaseException) -> bool:
    """Whether the state of the connection is unknown. Then it is closed, and not lent again."""
    return not isinstance(error, exceptions.ResponseError)


def translate(error: Exception, shown: str) -> Exception:
    """Our error for an error of the server. Other errors are returned as they came."""
    if isinstance(error, exceptions.ResponseError | exceptions.AuthenticationError | exceptions.BusyLoadingError):
        text = str(error)
        if text.startswith(REFUSED):
            return refusal(text)
        return _of_the_server(error, text, shown)
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreUnavailable(f"{shown}: expected an answer in time, got none; look at server and network; ask again")
    if isinstance(error, exceptions.RedisError | OSError):
        return StoreUnavailable(
            f"{shown}: expected a server that answers, got {type(error).__name__}: {error}; "
            "look whether it runs and can be reached; ask again"
        )
    if isinstance(error, UnicodeEncodeError):
        return StoreUnusable(f"{shown}: expected text that can be written as UTF-8, got {error}; leave that out")
    return error


_CLASSES = {
    exceptions.NoPermissionError: "NOPERM",
    exceptions.AuthenticationError: "WRONGPASS",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.BusyLoadingError: "LOADING",
}
"""The library removes the first word of some errors, and gives them a class instead."""


def _of_the_server(error: Exception, text: str, shown: str) -> Exception:
    word = next((name for kind, name in _CLASSES.items() if isinstance(error, kind)), text.partition(" ")[0])
    kind: type[StoreUnavailable] | type[StoreUnusable] = StoreUnavailable
    if word in _MAY_PASS:
        cause, todo = _MAY_PASS[word]
    else:
        kind = StoreUnusable
        cause, todo = _WILL_NOT.get(word, ("it refused", "if nobody changed its keys, report this as a bug"))
    return kind(f"{shown}: expected a server that reads and writes, but {cause} ({text[:300]}); {todo}")
