"""Runs one node from start to exit code, and prints what it does to standard output."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from onthedot.cli.errors import BROKEN, CUT_SHORT, BadInput, Failure
from onthedot.cli.node_process import signals
from onthedot.cli.node_process.banner import Banner, PreviousState, read_previous_state
from onthedot.cli.node_process.endpoints import Api, Endpoint, Metrics
from onthedot.cli.node_process.event_printer import EventPrinter, JsonPrinter, PeoplePrinter, Printer
from onthedot.cli.node_process.samples import NONE_ADDED, add_missing_samples
from onthedot.cli.node_process.signals import StopSignals
from onthedot.cli.node_process.systemd import Notifier, Watchdog
from onthedot.cli.options import DEFAULT_STORE, reader_zone, store_url
from onthedot.cli.program import load_program
from onthedot.cli.terminal import can_draw, colours_wanted
from onthedot.clock import Micros, SystemClock
from onthedot.model.errors import OnTheDotError, StoreUnavailable
from onthedot.model.events import AttemptEnded, AttemptStarted, DrainBegun, Event, LeaseLost, NodeLeft
from onthedot.model.verdict import LEASE_ENDED, OUT_OF_REACH, OutcomeKind
from onthedot.observe.counters import Counters
from onthedot.observe.formats import count, length, plain
from onthedot.observe.log_lines import Lines
from onthedot.scheduler import Scheduler, ping_engine
from onthedot.stores.addresses import shown_url
from onthedot.stores.connect import sqlite_path

if TYPE_CHECKING:
    from onthedot.cli.node_process.live_view import View
    from onthedot.cli.up import ApiOptions, NodeOptions
    from onthedot.settings import Settings

_LAST_MOMENT = 1.0  # seconds for a start that is nearly done when a signal comes
_LOOK_EVERY, _MOST_JOBS = 5.0, 200  # seconds between two reads of stored jobs for the live view; jobs per read


OutputForm = Literal["live", "lines", "json"]


def output_form(*, as_json: bool, plain: bool) -> OutputForm:
    """Return how the node's events are shown: as a live view on a terminal, unless the options choose another form."""
    if as_json:
        return "json"
    return "live" if can_draw() and not plain else "lines"


def run_program(program: str | None, given: NodeOptions, *, plain: bool, samples: bool, api: ApiOptions | None) -> int:
    """Run one node, of a program or with sample jobs. Return the exit code."""
    # Measured: next to threads that are busy in Python, the engine's thread wakes four times sooner.
    sys.setswitchinterval(0.0005)
    scheduler = _scheduler(program, given)
    url = scheduler.store
    if not isinstance(url, str):
        raise BadInput("PROGRAM: expected a scheduler with the URL of a store, got a store as an object; give --store")
    shape = output_form(as_json=given.as_json, plain=plain)
    watch = _end_with_parent if given.with_parent else None
    beside = _endpoints(scheduler, url, given, api)
    return asyncio.run(
        run_node(scheduler, url, given.duration, shape, samples=samples, on_signals=watch, beside=beside)
    )


def _scheduler(program: str | None, given: NodeOptions) -> Scheduler:
    scheduler = load_program(program) if program is not None else Scheduler(DEFAULT_STORE)
    if given.store is not None or given.db is not None or scheduler.store == DEFAULT_STORE:
        scheduler.store = store_url(given.store, given.db)
    scheduler.settings = given.settings(scheduler.settings)
    return scheduler


def _endpoints(scheduler: Scheduler, url: str, given: NodeOptions, api: ApiOptions | None) -> list[Endpoint]:
    """Return the services of this process. The API and the metrics show what the node counts."""
    counters = Counters()
    beside: list[Endpoint] = []
    if api is not None and not api.off:
        beside.append(Api(api, url, scheduler.settings, counters))
    if given.metrics is not None:
        beside.append(Metrics(counters, given.metrics))
    if beside:
        scheduler.subscribe(counters)
    return beside


def _end_with_parent(stopping: StopSignals) -> None:
    """Drain when standard input ends: the process that started this one has then ended."""

    def watch() -> None:
        while os.read(0, 1024):  # not sys.stdin: its lock would block the interpreter's exit
            continue
        stopping.drain()

    threading.Thread(target=watch, name="onthedot parent", daemon=True).start()


async def run_node(
    scheduler: Scheduler,
    url: str,
    duration: Micros | None,
    shape: OutputForm,
    *,
    samples: bool = False,
    on_signals: Callable[[StopSignals], None] | None = None,
    beside: Sequence[Endpoint] = (),
) -> int:
    """Run a program's node until it is asked to stop and has drained. Return the exit code. `samples` adds the sample
    jobs, unless the store has jobs of its own. `on_signals` receives the object that can stop it."""
    settings = scheduler.settings
    notifier = Notifier.take(os.environ)
    watchdog = Watchdog(notifier, [partial(ping_engine, scheduler), *(one.ping for one in beside)])
    stopping = StopSignals(scheduler.stop_now)
    if on_signals is not None:
        on_signals(stopping)
    told = [("samples", NONE_ADDED)] if samples and not await add_missing_samples(scheduler, url) else []
    view = _view(scheduler, url) if shape == "live" else None
    printer = EventPrinter(_printer(scheduler, shape, view), SystemClock(), on_broken=stopping.drain)
    result = DrainResult()
    scheduler.subscribe(printer.mailbox)
    scheduler.subscribe(result.heed)

    async def start() -> None:
        # Before the start, which creates the store.
        found = await read_previous_state(url, SystemClock().now(), scheduler.jobs.values())
        told.extend([pair for one in beside for pair in await asyncio.to_thread(one.start)])
        await _start(scheduler, url, printer, found, tuple(told), as_json=shape == "json")

    with stopping.signals():
        try:
            await _unless_asked(start(), stopping)
            notifier.ready(" and ".join(_duties(settings)))
            watchdog.start()
            looking = asyncio.create_task(_look(scheduler, view)) if view is not None else None
            await _run(scheduler, stopping, duration, lambda: notifier.stopping(settings.grace))
            if looking is not None:
                looking.cancel()
        finally:
            for one in beside:
                await asyncio.to_thread(one.stop)
            watchdog.stop()
            printer.close()
    if printer.error is not None:
        raise printer.error
    code = result.code(hurried=stopping.hurried)
    if code == BROKEN:
        for reason in result.reasons(settings.grace):
            click.echo(f"Error: {reason}", err=True)
    if result.abandoned:
        _leave_now(code)
    return code


def _printer(scheduler: Scheduler, shape: OutputForm, view: View | None) -> Printer:
    if shape == "json":
        return JsonPrinter()
    settings = scheduler.settings
    lines = Lines(late_after=settings.late_after, grace=settings.grace, names=tuple(scheduler.jobs), zone=reader_zone())
    people = PeoplePrinter(lines, colours=colours_wanted())
    if view is None:
        return people

    from onthedot.cli.node_process.live_view import LivePrinter

    return LivePrinter(people, view, SystemClock())


def _view(scheduler: Scheduler, url: str) -> View:
    from onthedot.cli.node_process.live_view import View  # draws with rich, only on a terminal

    settings, jobs = scheduler.settings, tuple(scheduler.jobs.values())
    store = str(sqlite_path(url) or shown_url(url))
    now, zone = SystemClock().now(), reader_zone()
    return View(store=store, jobs=jobs, seats=settings.seats, grace=settings.grace, now=now, zone=zone)


async def _look(scheduler: Scheduler, view: View) -> None:
    """Read the first 200 stored jobs, so that the view knows which are paused, edited or new. No event reports that."""
    while True:
        with suppress(OnTheDotError):  # the store is down, or the node stops: events report that
            records = await scheduler.list_jobs(limit=_MOST_JOBS)
            view.stored = records, len(records) < _MOST_JOBS
        await asyncio.sleep(_LOOK_EVERY)


async def _start(
    scheduler: Scheduler,
    url: str,
    printer: EventPrinter,
    found: PreviousState | None,
    more: tuple[tuple[str, str], ...],
    *,
    as_json: bool,
) -> None:
    await scheduler.start()
    events = printer.so_far()
    banner = Banner.of(url, found, scheduler, [event for _, event in events], SystemClock().now())
    banner = replace(banner, more=more)
    if as_json:
        printer.start([banner.as_json()], events)
    else:
        printer.start(banner.in_words(), events, is_told=Banner.is_told)


async def _run(
    scheduler: Scheduler, stopping: StopSignals, duration: Micros | None, on_drain: Callable[[], None]
) -> None:
    """Wait until the node is asked to stop, then drain. `on_drain` is called when the drain begins."""
    try:
        await _until_asked(scheduler, stopping, duration)
        on_drain()
        await scheduler.stop()
    except OnTheDotError as error:  # never bad input: the node had started
        raise Failure(f"the node broke: {error}") from error


async def _until_asked(scheduler: Scheduler, stopping: StopSignals, duration: Micros | None) -> None:
    """Wait for a signal or the end of `--for`. An error of the engine is raised."""
    asked = asyncio.create_task(stopping.asked())
    broken = asyncio.create_task(scheduler.broken())
    seconds = None if duration is None else duration / 1_000_000
    await asyncio.wait({asked, broken}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if broken.done():
        await broken
    broken.cancel()
    stopping.drain()


async def _unless_asked(start: Coroutine[Any, Any, None], stopping: StopSignals) -> None:
    """Start, unless a signal comes first: then there is nothing to drain, and the process exits with 0.

    A start that is nearly done gets one more second, so that the node can leave the cluster in order.
    """
    starting, asked = asyncio.create_task(start), asyncio.create_task(stopping.asked())
    await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
    if asked.done() and not starting.done():
        await asyncio.wait({starting}, timeout=_LAST_MOMENT)
    error = starting.exception() if starting.done() else None
    if asked.done() and (not starting.done() or isinstance(error, StoreUnavailable)):
        click.echo(signals.STOPPED + (f": {error}" if error is not None else ""), err=True)
        _leave_now(0)  # without waiting for calls to the store
    asked.cancel()
    await starting


def _duties(settings: Settings) -> Iterator[str]:
    if settings.plans:
        yield "plans"
    if settings.works:
        yield f"works, up to {settings.seats} attempts at once"


def _leave_now(code: int) -> None:
    """Exit without closing the event loop, which would wait for handlers that ignore cancellation."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@dataclass
class DrainResult:
    """How the attempts ended that ran when the drain began, or started after that."""

    running: set[int] | None = None  # run ids; None before the drain
    cut_short: list[str] = field(default_factory=list)  # jobs whose attempts the drain stopped
    out_of_reach: list[str] = field(default_factory=list)  # jobs whose attempts lost the store or their lease
    abandoned: int = 0  # attempts that did not stop
    unwritten: int = 0  # outcomes that could not be stored

    def heed(self, event: Event) -> None:
        """Update from one event of the node."""
        match event:
            case DrainBegun():
                self.running = set(event.run_ids)
            case AttemptStarted() if self.running is not None:
                self.running.add(event.lease.run_id)
            case AttemptEnded(finish) | LeaseLost(finish) if finish.lease.run_id in (self.running or ()):
                if finish.verdict.outcome is OutcomeKind.LOST:
                    away = finish.verdict.error in (OUT_OF_REACH.error, LEASE_ENDED.error)
                    (self.out_of_reach if away else self.cut_short).append(finish.lease.record.job.name)
            case NodeLeft():
                self.abandoned, self.unwritten = event.abandoned, event.unwritten
            case _:
                pass

    def code(self, *, hurried: bool) -> int:
        """Return the exit code. It is 0 if every attempt ended by itself and its outcome is stored."""
        if self.cut_short or self.abandoned:
            return CUT_SHORT if hurried else BROKEN
        return BROKEN if self.out_of_reach or self.unwritten else 0

    def reasons(self, grace: Micros) -> Iterator[str]:
        """Return why the drain was not clean."""
        if self.cut_short or self.abandoned:
            cut = count(len(self.cut_short) + self.abandoned, "attempt") + _names(self.cut_short)
            yield f"expected every attempt to end within {length(grace)}, gave up on {cut}; raise --grace"
        if self.out_of_reach:
            lost = count(len(self.out_of_reach), "attempt") + _names(self.out_of_reach)
            were = "was" if len(self.out_of_reach) == 1 else "were"
            yield f"the store was out of reach during the drain: {lost} {were} stopped, and will be recovered"
        if self.unwritten:
            ended = "the outcome of 1 attempt" if self.unwritten == 1 else f"the outcomes of {self.unwritten} attempts"
            yield f"{ended} could not be stored before the node left; what ran is recovered as if it had not ended"


def _names(jobs: Iterable[str]) -> str:
    names = ", ".join(map(plain, sorted(set(jobs))))
    return f" ({names})" if names else ""
