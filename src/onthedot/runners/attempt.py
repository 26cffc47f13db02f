"""One attempt, from its seat to its outcome: what every runner has in common."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from onthedot.clock import Micros
from onthedot.model.run import Lease
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind
from onthedot.output.line_marks import Mark, Stream
from onthedot.output.redact import redacted
from onthedot.runners.context import Context, Desk
from onthedot.runners.notes import Notes
from onthedot.runners.registry import Handler
from onthedot.runners.tracebacks import trace_of

ERROR_CHARACTERS = 4_000
LONGEST_LINE = 8_000
"""Characters of a line that are shown before it has ended."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A lease on its way through a runner. `outcome` is set exactly once; who sets it first, wins."""

    lease: Lease
    timeout: Micros = 0  # 0: none
    started_at: Micros = 0
    ended_at: Micros = 0
    outcome: Outcome | None = None
    timed_out: bool = False
    stop_as: Outcome | None = None  # what it is to end as: its lease is gone, it is cancelled, the node stops
    stuck: bool = False  # its outcome is decided, but its function still runs and keeps the seat
    handle: Any = field(default=None, repr=False)  # whatever the runner needs to end it early
    desk: Desk | None = field(default=None, repr=False)  # where it hands in what stays with its run
    context: Context | None = field(default=None, repr=False)

    def call(self, handler: Handler) -> Any:
        """Call the handler, now that the attempt has started: its result, or its coroutine."""
        if handler.takes_context:
            deadline = self.started_at + self.timeout if self.timeout else None
            self.context = Context(self.lease, self.desk, deadline, self.started_at)
            if self.stop_as is not None:  # asked for on another thread, before there was anybody to tell
                self.context.cancelled.set()
        return handler.call(self.lease, self.context)

    def failed(self, error: BaseException) -> Outcome:
        """The outcome of its handler that raised. Where it did goes into the attempt's log."""
        trace = trace_of(error)
        if trace and self.desk is not None:
            mark = Mark(self.desk.now(), "err")
            if self.context is not None:
                self.context._log_as(mark, trace)
            else:
                notes = Notes(self.lease)
                notes.log(trace, mark)
                self.desk.noted(notes)
        return failed(error)

    def tell_to_stop(self) -> None:
        """Let the handler know that it is to end."""
        if self.context is not None:
            self.context.cancelled.set()


class LiveLines:
    """What a program says, line by line, to the run's log, which any node can read while it runs.

    The order stays, and two streams do not share a line: one that is not ended when the other stream has something is
    ended there. So is one that gets too long.
    """

    def __init__(self, context: Context, step: str = "") -> None:
        self._context = context
        self._begun = ""  # a line that has not ended
        self._mark = Mark(0, "out", step)  # of that line

    def say(self, at: Micros, stream: Stream, text: str) -> None:
        """Some text came."""
        if stream != self._mark.stream:
            self.flush()
        mark = Mark(at, stream, self._mark.step)
        if self._begun:  # it has the instant of its beginning
            ended, line_end, text = text.partition("\n")
            self._begun += ended
            if line_end or len(self._begun) > LONGEST_LINE:
                self.flush()
        self._mark = self._mark if self._begun else mark
        whole, line_end, rest = text.rpartition("\n")
        if line_end:
            self._context._log_as(mark, whole)
        self._begun += rest
        if len(self._begun) > LONGEST_LINE:
            self.flush()

    def flush(self) -> None:
        """The line is as long as it will be."""
        if self._begun:
            self._context._log_as(self._mark, self._begun)
            self._begun = ""


Ended = Callable[[list[Attempt]], None]
Started = Callable[[list[Attempt]], None]


class Runner(Protocol):
    """Executes attempts of one kind. `start` and `stop` are called on the engine's thread."""

    def start(self, attempts: list[Attempt]) -> None:
        """Begin these now, or as soon as there is room. Each is delivered exactly once, when it has ended."""
        ...

    def stop(self, attempts: list[Attempt]) -> None:
        """End these early, as their `stop_as` says, if that is possible and they have not ended by then."""
        ...

    def close(self) -> None:
        """Let go of threads."""
        ...


def succeeded(value: object, limit: int) -> Outcome:
    """The outcome of a handler that returned: its value must be JSON, and not too large to keep."""
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
    """Why a returned value means that the handler's body has not run, or not to its end; empty if it has."""
    if inspect.iscoroutine(value):
        value.close()  # or Python would warn, later and elsewhere, that nobody awaited it
        return "the handler returned a coroutine that nobody awaits; define it with 'async def' and await it"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "the handler is a generator, so its body has not run; return a list instead of using 'yield'"
    return ""


def failed(error: BaseException) -> Outcome:
    """The outcome of a handler that raised. Its text is the handler's own code, and may be no text at all."""
    try:
        said = str(error)
    except BaseException as trouble:  # noqa: BLE001 - whatever it raises, the attempt has failed
        said = f"(its text cannot be had: {type(trouble).__name__})"
    text = f"{type(error).__name__}: {said}"[:ERROR_CHARACTERS]
    kept = text.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be stored
    return Outcome(OutcomeKind.FAILED, kept, type_names(type(error)))


def without_secrets(outcome: Outcome, forms: Sequence[bytes]) -> Outcome:
    """The outcome as it may be kept and shown: an error may name what a program or the other side has said."""
    if not forms or outcome.error is None:
        return outcome
    return outcome._replace(error=redacted(outcome.error, forms, cut=len(outcome.error) >= ERROR_CHARACTERS))


def never_begun(attempt: Attempt) -> Outcome:
    """The outcome of an attempt that is stopped before user code began: nothing happened, unless it was cancelled."""
    if attempt.stop_as is not None and attempt.stop_as.kind is OutcomeKind.CANCELLED:
        return attempt.stop_as
    return Outcome(OutcomeKind.RELEASED, "stopped before it began")


def timed_out(timeout: Micros) -> Outcome:
    """The outcome of an attempt that took longer than its job allows."""
    return Outcome(OutcomeKind.TIMED_OUT, f"took longer than its time-out of {timeout / 1_000_000:g} s")


def type_names(kind: type[BaseException]) -> tuple[str, ...]:
    """An exception type and its bases, as the dotted names that `Retry.on` holds.

    >>> type_names(ConnectionResetError)[:2]
    ('builtins.ConnectionResetError', 'builtins.ConnectionError')
    """
    return tuple(f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__ if issubclass(base, BaseException))
