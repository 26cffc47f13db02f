"""Makes the outcomes of attempts: a handler that returned, one that raised, and an attempt that took too long. Pure."""

from __future__ import annotations

import inspect
import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from onthedot.clock import Micros
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind
from onthedot.output.redact import redacted

ERROR_CHARACTERS = 4_000
"""Most characters of an error that are kept."""


def succeeded(value: object, limit: int) -> Outcome:
    """Return the outcome of a handler that returned this value. It is a failure if the value is no JSON, or has more
    than `limit` characters."""
    if value is None:
        return SUCCEEDED
    never_run = _never_run(value)
    if never_run:
        return Outcome(OutcomeKind.FAILED, never_run, ("onthedot.HandlerNeverRan",))
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        kept = f"the handler returned {type(value).__name__}, which is not JSON ({error}); return None or plain data"
        return Outcome(OutcomeKind.FAILED, kept, ("onthedot.ResultNotJson",))
    if len(text) > limit:
        kept = f"the handler's result is {len(text)} characters of JSON, more than {limit}; store it elsewhere"
        return Outcome(OutcomeKind.FAILED, kept, ("onthedot.ResultTooLarge",))
    return Outcome(OutcomeKind.SUCCEEDED, result=text)


def _never_run(value: object) -> str:
    """Return why this value shows that the handler's body has not run; empty if it has."""
    if inspect.iscoroutine(value):
        value.close()  # else Python warns later that nobody awaited it
        return "the handler returned a coroutine that nobody awaits; define it with 'async def' and await it"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "the handler is a generator, so its body has not run; return a list instead of using 'yield'"
    return ""


def failed(error: BaseException) -> Outcome:
    """Return the outcome of a handler that raised. User code makes the error's text, so making it may fail, too."""
    try:
        said = str(error)
    except BaseException as trouble:  # noqa: BLE001 - whatever it raises, the attempt has failed
        said = f"(its text is not available: {type(trouble).__name__})"
    text = f"{type(error).__name__}: {said}"[:ERROR_CHARACTERS]
    kept = text.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be stored
    return Outcome(OutcomeKind.FAILED, kept, type_names(type(error)))


def timed_out(timeout: Micros) -> Outcome:
    """Return the outcome of an attempt that took longer than its time-out."""
    return Outcome(OutcomeKind.TIMED_OUT, f"took longer than its time-out of {timeout / 1_000_000:g} s")


def type_names(kind: type[BaseException]) -> tuple[str, ...]:
    """Return an exception type and its bases, as the dotted names that `Retry.on` holds.

    >>> type_names(ConnectionResetError)[:2]
    ('builtins.ConnectionResetError', 'builtins.ConnectionError')
    """
    return tuple(f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__ if issubclass(base, BaseException))


def without_secrets(outcome: Outcome, forms: Sequence[bytes]) -> Outcome:
    """Return the outcome without secrets in its error, because the error may quote a program or a server."""
    if not forms or outcome.error is None:
        return outcome
    return outcome._replace(error=redacted(outcome.error, forms, cut=len(outcome.error) >= ERROR_CHARACTERS))


# ── tracebacks ──────────────────────────────────────────────────────────────────────────────────────────────────────


_OURS = str(Path(__file__).resolve().parents[1]) + "/"
_LIBRARIES = (f"{Path(traceback.__file__).resolve().parent}/", f"{sys.prefix}/lib/", "<frozen ")
_OWN, _LAST, _CHARACTERS = 5, 3, 4_000


def trace_of(error: BaseException) -> str:
    """Return the last five frames of the user's own code, and the last three frames of any code but ours. Empty if
    there are none.

    >>> def charge():
    ...     raise ConnectionError("no line")
    >>> try:
    ...     charge()
    ... except ConnectionError as error:
    ...     print(trace_of(error).splitlines()[0])
    ConnectionError came from (last frame last):
    """
    try:
        return _trace(error)
    except Exception:  # noqa: BLE001 - the user's import loaders read the sources, and may fail
        return ""


def _trace(error: BaseException) -> str:
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_ours(frame)]
    chosen = _choose([_is_library(frame) for frame, _ in frames])
    if not chosen:
        return ""
    lines, before = [f"{type(error).__name__} came from (last frame last):"], chosen[0] - 1
    for place in chosen:
        if place != before + 1:
            lines.append(f"  [{place - before - 1} more]")
        lines += traceback.StackSummary.extract([frames[place]]).format()[0].rstrip("\n").split("\n")
        before = place
    return "\n".join(lines)[:_CHARACTERS]


def _choose(is_library: Sequence[bool]) -> list[int]:
    """Return the indexes of the frames to show.

    >>> _choose([False, False, *[True] * 6])
    [0, 1, 5, 6, 7]
    """
    own = [place for place, library in enumerate(is_library) if not library][-_OWN:]
    return sorted({*own, *range(len(is_library))[-_LAST:]})


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _is_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_LIBRARIES) or "/site-packages/" in name or "/dist-packages/" in name
