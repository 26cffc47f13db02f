"""The event log of a harness has a line for each event and a traceback for each failure of a handler."""

from __future__ import annotations

import asyncio

import onthedot as otd
from onthedot.testing import Harness, run_virtual

NOON = "2026-06-01T12:00Z"


def program() -> otd.Scheduler:
    sched = otd.Scheduler("memory:")

    @sched.job(retry=otd.Retry(3, delay="10s", jitter=False))
    async def waits(ctx: otd.Context, order: int = 7) -> None:
        raise LookupError(f"there is no order {order}")

    @sched.job
    def plain() -> None:
        raise ConnectionError("the mail server is away")

    @sched.job(timeout="5s")
    async def slow() -> None:
        await asyncio.sleep(60)

    return sched


def log_of(*jobs: str, length: str = "1m") -> tuple[list[str], list[str], str]:
    """Run these jobs, and return the lines, the tracebacks and the report."""

    async def main() -> tuple[list[str], list[str], str]:
        sched = program()
        harness = Harness(NOON, quiet=True)
        await harness.start(sched)
        for job in jobs:
            await sched.submit(job)
        await harness.advance(length)
        return harness.lines(), harness.event_log.tracebacks(), harness.event_log.report()

    return run_virtual(main())


def test_the_traceback_of_a_coroutine_begins_in_the_handler():
    _, [text], _ = log_of("waits")
    lines = text.strip().splitlines()
    assert lines[0] == "waits: Traceback (most recent call last):"
    assert "test_event_log.py" in lines[1]
    assert lines[-1] == "LookupError: there is no order 7"


def test_an_error_that_repeats_has_one_traceback():
    lines, tracebacks, _ = log_of("waits", "waits")
    assert sum("  started " in line for line in lines) == 6
    assert len(tracebacks) == 1


def test_a_plain_function_has_a_traceback_too():
    _, [text], report = log_of("plain")
    assert "test_event_log.py" in text
    assert text.endswith("ConnectionError: the mail server is away")
    assert report.endswith(text)


def test_a_time_out_has_no_traceback():
    lines, tracebacks, _ = log_of("slow")
    assert tracebacks == []
    assert "took longer than its time-out" in lines[-1]


def test_lines_have_date_and_time_in_utc():
    lines, _, _ = log_of("plain", length="1 day")
    assert lines[-1].startswith("2026-06-01 12:00:00.000  dead       plain ")


def test_a_long_report_shows_the_last_lines():
    lines, _, report = log_of(*["slow"] * 40)
    shown = report.splitlines()
    assert shown[0] == f"… {len(lines) - 60} lines before"
    assert shown[1:] == lines[-60:]


def test_a_harness_without_a_node_has_no_lines():
    async def main() -> list[str]:
        return Harness(NOON).lines()

    assert run_virtual(main()) == []
