"""The errors that onthedot raises on purpose.

    OnTheDotError
    ├── DefinitionError        a definition cannot become a job
    │   ├── ScheduleError      … because of its schedule
    │   ├── DuplicateJob       … because the name is taken
    │   ├── ArgumentsError     … because its arguments are not JSON, too large, or do not fit
    │   ├── DependencyCycle    … because it would run after itself
    │   ├── SourceConflict     … because the job is stored from another source
    │   └── DuplicateUser      … or a user, because the name is taken
    ├── UnknownJob             no job of that name
    ├── UnknownRun             no run of that id (any more)
    ├── UnknownHandler         a job names a handler that is not registered here
    ├── UnknownSecret          a secret that a run needs does not exist, or cannot be read
    ├── UnknownKey             no API key of that id
    ├── UnknownUser            no user of that name
    ├── UnknownSession         no session of that id
    ├── AccessDenied           the caller may not do this, or would give away more than they have
    ├── KeyRefused             a server does not know the caller: no key, or one that is not valid
    ├── LoginRefused           a name and a password, or a one-time token, that are not valid
    │   └── LoginLimited       … or were not checked: too many attempts
    │       └── LoginsBusy     … of other callers: too many wait on this server
    ├── ProviderUnavailable    the identity provider's keys cannot be read
    ├── QuotaExceeded          a server takes no more jobs or runs of this owner for now
    ├── KeyConflict            the key was used before, with other arguments
    ├── RevisionConflict       the job was edited by someone else in the meantime
    ├── LayoutConflict         the stored layout is at another version than the caller read
    ├── UnknownSlot            the schedule has no slot at that instant
    ├── SlotSettled            the slot has begun, is decided, or is past: too late to change it
    ├── WindowStale            the caller's window starts after the store's watermark: compute it again
    ├── StoreError             the store could not be read or written
    │   ├── StoreUnavailable   … for now: try again later
    │   └── StoreUnusable      … for good: corrupt, too new, not ours
    ├── OutputUnavailable      the output store could not be read or written, for now
    ├── RunFailed              a run whose result was waited for did not succeed
    ├── LeaseLost              an attempt's run has another owner by now
    ├── TermLost               another node leads now
    ├── NodeExpired            this incarnation's lease has ended
    └── StateError             a verb was called at the wrong time (start twice, submit before start)

Every message says what was expected, what came, and what to do next.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class OnTheDotError(Exception):
    """The root of all errors that onthedot raises on purpose.

    >>> import onthedot as otd
    >>> try:
    ...     otd.every("no time")
    ... except otd.OnTheDotError as error:
    ...     print(type(error).__name__)
    ScheduleError
    """


class DefinitionError(OnTheDotError, ValueError):
    """A definition cannot become a job. `problems` lists every reason, not only the first.

    >>> DefinitionError(["no name", "no task"], subject="job 'x'").problems
    ['no name', 'no task']
    """

    def __init__(self, problems: str | Iterable[str], *, subject: str = "") -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        self.subject = subject
        super().__init__(self._text())

    def _text(self) -> str:
        head = f"{self.subject}: " if self.subject else ""
        if len(self.problems) == 1:
            return head + self.problems[0]
        return head + "".join(f"\n  - {problem}" for problem in self.problems)


class ScheduleError(DefinitionError):
    """A schedule cannot be read, or never yields a time.

    >>> import onthedot as otd
    >>> otd.cron("61 * * * *")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.ScheduleError: ...
    """


class DuplicateJob(DefinitionError):
    """Two definitions in one program claim the same name.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> define = sched.job(name="report")(print) and sched.job(name="report")
    >>> define(print)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.DuplicateJob: job 'report' is defined already in this program...
    """


class ArgumentsError(DefinitionError):
    """The arguments are not JSON, are too large for a run, or do not fit the handler or the parameters.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> report = sched.job(name="report")(lambda region: None)
    >>> report.call({1, 2})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.ArgumentsError: job 'report': arguments: expected JSON ...
    """


class DependencyCycle(DefinitionError):
    """A job would run after itself, directly or through other jobs.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(after=["clean"])
    ... async def load() -> None: ...
    >>> @sched.job(after=["load"])
    ... async def clean() -> None: ...
    >>> await sched.start()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.DependencyCycle: ... got load → clean → load; remove one of these arrows
    """


class DuplicateUser(DefinitionError):
    """A user of this name exists already."""


class SourceConflict(DefinitionError):
    """A job is applied from one source, but stored from another. Nothing was written.

    >>> from datetime import timedelta
    >>> import onthedot as otd
    >>> nap = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)))
    >>> async with otd.Scheduler("memory:") as sched:
    ...     applied = await sched.apply([nap], source="jobs.yaml")
    ...     await sched.apply([nap], source="other.yaml")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.SourceConflict: other.yaml: job 'nap' is stored from jobs.yaml; nothing was written; ...
    """


class UnknownJob(OnTheDotError, LookupError):
    """No job of that name is stored.

    >>> import asyncio, onthedot as otd
    >>> async def main() -> None:
    ...     async with otd.Scheduler("memory:") as sched:
    ...         try:
    ...             await sched.submit("reprot")
    ...         except otd.UnknownJob as error:
    ...             print(error)
    >>> asyncio.run(main())
    no job 'reprot' is stored
    """


class UnknownRun(OnTheDotError, LookupError):
    """No run of that id is stored. It never existed, was withdrawn by an edit, or has been removed.

    >>> import asyncio, onthedot as otd
    >>> async def main() -> None:
    ...     async with otd.Scheduler("memory:") as sched:
    ...         try:
    ...             await sched.result(7)
    ...         except otd.UnknownRun as error:
    ...             print(error)
    >>> asyncio.run(main())
    there is no run 7: expected one that was submitted and not removed
    """


class UnknownHandler(OnTheDotError, LookupError):
    """A job names a handler that this program has not registered.

    >>> import onthedot as otd
    >>> from onthedot.model.job import Call
    >>> otd.Scheduler("memory:").add(otd.Job(name="report", task=Call(handler="os.system")))
    Traceback (most recent call last):
    onthedot.model.errors.UnknownHandler: job 'report': no handler 'os.system' is registered here
    """


class UnknownSecret(OnTheDotError, LookupError):
    """A secret does not exist, cannot be read, or is not valid. Messages never contain its value.

    >>> raise UnknownSecret("secret DB: expected its value, got none")
    Traceback (most recent call last):
    onthedot.model.errors.UnknownSecret: secret DB: expected its value, got none
    """


class UnknownKey(OnTheDotError, LookupError):
    """No API key of that id is stored, or the caller may not see it."""


class UnknownUser(OnTheDotError, LookupError):
    """No user of that name is stored, or the caller may not see it."""


class UnknownSession(OnTheDotError, LookupError):
    """No session of that id is open, or the caller may not see it."""


class AccessDenied(OnTheDotError):
    """The caller may not do this. Nobody can give or take more rights than they have themselves.

    >>> raise AccessDenied("ann (viewer) may not do this: expected runs:control")
    Traceback (most recent call last):
    onthedot.model.errors.AccessDenied: ann (viewer) may not do this: expected runs:control
    """


class KeyRefused(OnTheDotError):
    """The server does not know the caller. It received no key, or a key that was revoked, has expired, or never
    existed.

    >>> raise KeyRefused("http://127.0.0.1:7411: expected a key")
    Traceback (most recent call last):
    onthedot.model.errors.KeyRefused: http://127.0.0.1:7411: expected a key
    """


class LoginRefused(OnTheDotError):
    """A name and a password, or a one-time token, are not valid. The message never tells which part was wrong."""


class LoginLimited(LoginRefused):
    """Too many login attempts came from this address. `again_in` is the time until the next one is accepted
    (microseconds)."""

    def __init__(self, message: str, *, again_in: int) -> None:
        super().__init__(message)
        self.again_in = again_in


class LoginsBusy(LoginLimited):
    """Too many logins wait on this server. All addresses are counted together."""


class ProviderUnavailable(OnTheDotError):
    """The keys of the identity provider cannot be read. Nobody can sign on through it until they can be read again."""


class QuotaExceeded(OnTheDotError):
    """A server accepts no more jobs or runs of this owner for now. The message names the quota and the next step."""


class KeyConflict(OnTheDotError):
    """A run with this key was submitted before, with other arguments.

    >>> import asyncio, onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> receipt = sched.job(name="receipt")(lambda order: None)
    >>> async def main() -> None:
    ...     async with sched:
    ...         await sched.submit(receipt.call(order=1), key="k")
    ...         try:
    ...             await sched.submit(receipt.call(order=2), key="k")
    ...         except otd.KeyConflict as error:
    ...             print(error)
    >>> asyncio.run(main())
    key 'k': used before by run 1, with other arguments
    """


class RevisionConflict(OnTheDotError):
    """The stored job is at another revision than the caller read."""


class LayoutConflict(OnTheDotError):
    """The stored layout is at another version than the caller read."""


class UnknownSlot(OnTheDotError, LookupError):
    """No schedule of the job has a slot at that instant.

    >>> import onthedot as otd
    >>> from datetime import UTC, datetime
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(schedule=otd.cron("0 9 * * *"))
    ... async def report() -> None: ...
    >>> async with sched:
    ...     await sched.skip_next("report", slot=datetime(2099, 1, 1, 9, 30, tzinfo=UTC))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.UnknownSlot: slot: expected an instant that the job's schedules yield, got 2099-01-01T09:30...
    """


class SlotSettled(OnTheDotError):
    """A slot can no longer be changed, because it has begun, is decided, or is past.

    >>> import onthedot as otd
    >>> from datetime import UTC, datetime
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(schedule=otd.cron("0 9 * * *"))
    ... async def report() -> None: ...
    >>> async with sched:
    ...     await sched.skip_next("report", slot=datetime(2020, 1, 1, 9, tzinfo=UTC))
    Traceback (most recent call last):
    onthedot.model.errors.SlotSettled: slot 2020-01-01T09:00:00+00:00: expected one that lies ahead, but it is past
    """


class WindowStale(OnTheDotError):
    """A window of slots begins after the watermark that it continues from, or ignores an exception of its schedule.
    `now` is the store's clock."""

    def __init__(self, message: str, *, watermark: int, now: int) -> None:
        super().__init__(message)
        self.watermark = watermark
        self.now = now


class StoreError(OnTheDotError):
    """The store could not be read or written. `StoreUnavailable` is temporary, and `StoreUnusable` is permanent.

    >>> import onthedot as otd
    >>> try:
    ...     await otd.Scheduler("sqlite:///no/such/folder/shop.db").start()
    ... except otd.StoreError as error:
    ...     print(error)  # doctest: +ELLIPSIS
    /...shop.db: expected its folder to exist, got No such file or directory; create it first
    """


class StoreUnavailable(StoreError):
    """The store cannot be reached or written at the moment. Make the same call again later.

    >>> raise StoreUnavailable("shop.db: locked for 5 s")
    Traceback (most recent call last):
    onthedot.model.errors.StoreUnavailable: shop.db: locked for 5 s
    """


class StoreUnusable(StoreError):
    """The store cannot work: it is corrupt, was written by a newer version, or is not ours. A retry does not help."""


class OutputUnavailable(OnTheDotError):
    """The output store could not be read or written. Jobs continue, and their output waits in the spool.

    >>> issubclass(OutputUnavailable, OnTheDotError)
    True
    """


class RunFailed(OnTheDotError):
    """A run ended without a result. `state` is dead, lost, cancelled or skipped. `reason` and `error` have the cause.

    >>> RunFailed(7, state="dead", reason="failed 3 times", error="ConnectionError: no route")
    RunFailed('run 7 is dead (failed 3 times): ConnectionError: no route')
    >>> RunFailed(7, state="cancelled", reason="cancelled")
    RunFailed('run 7 is cancelled')
    """

    def __init__(self, run_id: int, *, state: str, reason: str = "", error: str | None = None) -> None:
        why = f" ({reason})" if reason not in ("", state) else ""
        super().__init__(f"run {run_id} is {state}{why}" + (f": {error}" if error else ""))
        self.run_id = run_id
        self.state = state
        self.reason = reason
        self.error = error


class LeaseLost(OnTheDotError):
    """The attempt has lost its lease. Its node was considered dead, and the run has another owner.

    >>> async def report(ctx):
    ...     try:
    ...         await ctx.checkpoint(7)
    ...     except LeaseLost:
    ...         return  # end: whatever this attempt does counts no more
    """


class TermLost(OnTheDotError):
    """A call carried a term or a layout that is not the current one: another node leads."""


class NodeExpired(OnTheDotError):
    """The lease of this incarnation has ended. It may finish the runs that it holds, but may not reserve or arm."""


class StateError(OnTheDotError, RuntimeError):
    """A verb was called at the wrong time.

    >>> import asyncio, onthedot as otd
    >>> asyncio.run(otd.Scheduler("memory:").submit("report"))
    Traceback (most recent call last):
    onthedot.model.errors.StateError: the scheduler is not running; call start() first, or use 'async with'
    """


_MOST_KNOWN = 50  # names in one message
_LONGEST_GUESS = 200  # characters: comparing two texts takes the product of their lengths


def shown(value: object, most: int = 60) -> str:
    """Return a value as a message quotes it: its `repr`, cut after `most` characters. So no input makes a long error.

    >>> shown("30 2 * *"), shown("x" * 1_000_000, most=3)
    ("'30 2 * *'", "'xxx…' (1000000 characters)")
    """
    if isinstance(value, str | bytes):
        if len(value) <= most:
            return repr(value)
        kind = "characters" if isinstance(value, str) else "bytes"
        cut = repr(value[:most])
        return f"{cut[:-1]}…{cut[-1]} ({len(value)} {kind})"
    try:
        text = repr(value)
    except (ValueError, RecursionError) as error:  # such as an int of more than 4,300 digits
        return f"{type(value).__name__} that cannot be shown ({str(error)[:60]})"
    return text if len(text) <= most else f"{text[:most]}…"


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `", did you mean 'x'?"` with the nearest known word. If none is near, return the list of known words.
    `cutoff` sets how similar the word must be, up to 1.

    >>> did_you_mean("quue", ["queue", "retry"])
    ", did you mean 'queue'?"
    """
    names = sorted(known)
    import difflib  # only when something is wrong

    near = difflib.get_close_matches(word[:_LONGEST_GUESS], names, n=1, cutoff=cutoff)
    if near:
        return f", did you mean {near[0]!r}?"
    more = f" and {len(names) - _MOST_KNOWN} more" if len(names) > _MOST_KNOWN else ""
    return f"; known: {', '.join(map(_in_one_line, names[:_MOST_KNOWN]))}{more}" if names else ""


class WrongCall(DefinitionError, TypeError):
    """A constructor got arguments that it does not take."""


def explains_arguments(kind: type[T]) -> type[T]:
    """Make the constructor of a class name its arguments in the error for an unknown or missing one.

    >>> @explains_arguments
    ... class Box:
    ...     def __init__(self, *, size: int) -> None: ...
    >>> Box(sise=3)
    Traceback (most recent call last):
    onthedot.model.errors.WrongCall: Box: unknown argument 'sise', did you mean 'size'?
    """
    init = kind.__init__

    @functools.wraps(init)
    def explained(self: object, *args: object, **given: object) -> None:
        try:
            init(self, *args, **given)  # wrong ones are told below
        except TypeError:
            problems = _call_problems(init, args, given)
            if not problems:
                raise
            raise WrongCall(problems, subject=kind.__name__) from None

    kind.__init__ = explained  # type: ignore[method-assign]
    return kind


def _call_problems(init: Callable[..., None], args: Sequence[object], given: Mapping[str, object]) -> list[str]:
    import inspect  # only when something is wrong

    _, *parameters = inspect.signature(init).parameters.values()
    names = [one.name for one in parameters]
    unnamed = [one.name for one in parameters if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    problems = [f"unknown argument {name!r}{did_you_mean(name, names)}" for name in given if name not in names]
    if len(args) > len(unnamed):
        example = ", ".join(f"{name}=…" for name in names[:2])
        problems.append(
            f"expected at most {len(unnamed)} arguments without a name, got {len(args)}; write their names: {example}"
        )
    filled = {*given, *unnamed[: len(args)]}
    missing = [one.name for one in parameters if one.default is inspect.Parameter.empty and one.name not in filled]
    if missing and not problems:
        problems.append(f"expected {', '.join(f'{name}=…' for name in missing)}, got none")
    problems += [f"argument {name!r} is given twice" for name in unnamed[: len(args)] if name in given]
    return problems


def _in_one_line(name: str) -> str:
    return name if name.isprintable() else repr(name)[1:-1]
