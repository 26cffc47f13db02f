"""Hostile text: every reader refuses a mebibyte in less than ten milliseconds, with a short error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import onthedot as otd
from onthedot.define.job_reader import read_job, read_jobs
from onthedot.define.options import parse_size
from onthedot.model.duration import parse_duration
from onthedot.model.errors import DefinitionError
from onthedot.schedules.instants import read_instant
from onthedot.schedules.zones import zone

MEBIBYTE = 1 << 20
LONGEST_TIME = 0.010  # seconds
LONGEST_ERROR = 500

TEXTS = {
    "letters": "x" * MEBIBYTE,
    "digits": "9" * MEBIBYTE,
    "blanks": " " * MEBIBYTE,
    "tabs": "1" + "\t" * MEBIBYTE + "x",
    "commas": "," * MEBIBYTE,
    "dashes": "1-" * (MEBIBYTE // 2),
    "slashes": "Europe/" * (MEBIBYTE // 7),
    "terms": "61," * (MEBIBYTE // 3),
    "names": "MONN," * (MEBIBYTE // 5),
    "stars": "* " * (MEBIBYTE // 2),
    "lengths": "1h " * (MEBIBYTE // 3) + "x",
    "units": "1" + "m" * MEBIBYTE,
    "dots": "1." * (MEBIBYTE // 2),
    "emoji": "😀" * (MEBIBYTE // 4),
    "nulls": "\x00" * MEBIBYTE,
    "quotes": "'\\" * (MEBIBYTE // 2),
    "spreads": "H(" * (MEBIBYTE // 2),
    "alias": "@" + "daily" * (MEBIBYTE // 5),
    "at": "at 2026-01-01T00:00Z" + " " * MEBIBYTE + "x",
    "at, commas": "at 2026-01-01T00:00Z" + "," * MEBIBYTE,
    "at, many": "at " + "2026-01-01T00:00Z, " * (MEBIBYTE // 19),
    "every": "every 1h" + " " * MEBIBYTE + "x",
    "every, from": "every 1h" + " from" * (MEBIBYTE // 5),
    "gap": "gap " + "1h from " * (MEBIBYTE // 8),
    "in": "in " + "1" * MEBIBYTE + "h",
    "instant": "2026-01-01T00:00:00." + "0" * MEBIBYTE,
    "cron": "0 2 * * " + "MON," * (MEBIBYTE // 4),
    "four": "*/5 * * " + "1," * (MEBIBYTE // 2),
}


def _option(name: str) -> dict[str, Any]:
    return {name: 1}


def job(**schedule: Any) -> Callable[[], object]:
    return lambda: read_job({"name": "a", "noop": True, "schedule": schedule})


READERS: dict[str, Callable[[str], object]] = {
    "parse": otd.parse,
    "parse, tz": lambda text: otd.parse("@daily", tz=text),
    "parse, id": lambda text: otd.parse("@daily", id=text),
    "parse, gap": lambda text: otd.parse("@daily", gap=text),  # type: ignore[arg-type]
    "parse, option": lambda text: otd.parse("@daily", **_option(text)),
    "cron": otd.cron,
    "cron, seconds": lambda text: otd.cron(text, seconds=True),
    "cron, tz": lambda text: otd.cron("@daily", tz=text),
    "cron, start": lambda text: otd.cron("@daily", start=text),
    "cron, end": lambda text: otd.cron("@daily", tz="Europe/Berlin", end=text),
    "cron, fold": lambda text: otd.cron("@daily", fold=text),  # type: ignore[arg-type]
    "cron, max_count": lambda text: otd.cron("@daily", max_count=text),  # type: ignore[arg-type]
    "cron, args": lambda text: otd.cron("@daily", args=text),  # type: ignore[arg-type]
    "every": otd.every,
    "every, anchor": lambda text: otd.every("1h", anchor=text),
    "every, jitter": lambda text: otd.every("1h", jitter=text),
    "gap": otd.gap,
    "in": otd.in_,
    "at": otd.at,
    "at, tz": lambda text: otd.at("2026-01-01T00:00", tz=text),
    "duration": parse_duration,
    "size": parse_size,
    "instant": read_instant,
    "zone": zone,
    "retry": lambda text: otd.Retry(3, delay=text),
    "rate": lambda text: otd.Rate(1, text),
    "a body's schedule": lambda text: read_job({"name": "a", "noop": True, "schedule": text}),
    "a body's cron": lambda text: job(cron=text)(),
    "a body's cron with run_once": lambda text: read_job(
        {"name": "a", "noop": True, "schedule": {"cron": text}, "run_once": False}
    ),
    "a body's every": lambda text: job(every=text)(),
    "a body's gap": lambda text: job(gap=text)(),
    "a body's in": lambda text: job(**{"in": text})(),
    "a body's at": lambda text: job(at=text)(),
    "a body's list of at": lambda text: job(at=[text])(),
    "a body's zone": lambda text: job(cron="@daily", tz=text)(),
    "a body's start": lambda text: job(cron="@daily", start=text)(),
    "a body's jitter": lambda text: job(every="1h", jitter=text)(),
    "a body's id": lambda text: job(every="1h", id=text)(),
    "a body's seconds": lambda text: job(cron="@daily", seconds=text)(),
    "a body's option": lambda text: job(cron="@daily", **{text: 1})(),
    "a body's timeout": lambda text: read_job({"name": "a", "noop": True, "timeout": text}),
    "a file": lambda text: read_jobs(f"jobs:\n  - name: a\n    noop: true\n    schedule: {text}\n"),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_mebibyte_is_refused_fast_with_a_short_message(reader):
    for name, text in TEXTS.items():
        if reader == "a file" and len(text) < MEBIBYTE - 10:  # read as YAML first, which takes longer
            continue
        error, took = refused(READERS[reader], text)
        assert len(str(error)) < LONGEST_ERROR, (name, str(error)[:1_000])
        assert took < LONGEST_TIME, (name, took)


SHORT = {
    "bad terms": "x," * 495,
    "bad names": "MONN," * 198,
    "bad fields": ("61," * 60 + "61 ") * 5,
    "bad numbers": " ".join(["9" * 190] * 5),
    "bad steps": " ".join(["*/" + "9" * 190] * 5),
    "all at once": ",".join(["1-x/0", "L-99", "7W8", "1#9", "H(5-1)"] * 30) + " x x x x",
    "four bad fields": "x y z " + "w," * 300,
}


@pytest.mark.parametrize("text", SHORT.values(), ids=SHORT)
def test_a_thousand_bad_characters_are_refused_fast_with_a_short_message(text):
    for reader in ("parse", "cron", "a body's cron", "a file"):
        error, took = refused(READERS[reader], text)
        assert len(str(error)) < LONGEST_ERROR, (reader, str(error))
        assert took < LONGEST_TIME or reader == "a file", (reader, took)


def refused(reader: Callable[[str], object], text: str) -> tuple[DefinitionError, float]:
    """Return the error and how long it took: the shortest of up to three tries, because the machine may be busy."""

    def once() -> tuple[DefinitionError, float]:
        start = time.thread_time()
        with pytest.raises(DefinitionError) as found:
            reader(text)
        return found.value, time.thread_time() - start

    error, took = once()
    return (error, took) if took < LONGEST_TIME else (error, min(once()[1] for _ in range(2)))
