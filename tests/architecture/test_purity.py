"""Deciding code is pure: only `clock.py` reads the time, only `ids.py` draws randomness, and no error is swallowed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.banned import (
    Finding,
    banned_builtins,
    banned_imports,
    banned_uses,
    swallowed_errors,
)
from tests.architecture.source import PACKAGE, ROOT, VERIFY, python_files, report

# The code that decides: the same arguments always give the same answer.
DECIDING = (
    "schedules",
    "rules",
    "model",
)

ARGUMENT = "an argument of the function, passed by the code that drives"

IMPORTS_BANNED_IN_DECIDING = {
    "asyncio": "a plain function; waiting is for the code that drives",
    "os": ARGUMENT,
    "pathlib": "text passed by the code that reads files",
    "random": "a number passed by the code that drives",
    "secrets": "an id passed by the code that drives",
    "socket": ARGUMENT,
    "sqlite3": "values; recording is for the stores",
    "subprocess": "values; running is for the code that drives",
    "threading": "a plain function over frozen values",
    "time": "`now`, passed by the code that drives",
    "uuid": "an id passed by the code that drives",
}
CLOCK_READS = {
    "datetime.date.today": "`now` as an argument, or `onthedot.clock`",
    "datetime.datetime.now": "`now` as an argument, or `onthedot.clock`",
    "datetime.datetime.today": "`now` as an argument, or `onthedot.clock`",
    "datetime.datetime.utcnow": "`now` as an argument, or `onthedot.clock`",
}
NAMES_BANNED_IN_DECIDING = CLOCK_READS | {
    "onthedot.clock.SystemClock": "`now`, passed by the code that drives",
    "onthedot.ids": "an id or a number passed by the code that drives",
    "onthedot.ids.*": "an id or a number passed by the code that drives",
}
BUILTINS_BANNED_IN_DECIDING = {
    "input": ARGUMENT,
    "open": "text passed by the code that reads files",
    "print": "a value, which the command line prints",
}

BANNED_EVERYWHERE = CLOCK_READS | {
    "os.urandom": "`onthedot.ids`",
    "random": "`onthedot.ids`",
    "random.*": "`onthedot.ids`",
    "secrets": "`onthedot.ids`",
    "secrets.*": "`onthedot.ids`",
    "time.clock_gettime*": "`onthedot.clock`",
    "time.monotonic*": "`onthedot.clock`",
    "time.sleep": "a wait of the clock, which a test can advance",
    "time.time*": "`onthedot.clock`",
    "uuid": "`onthedot.ids`",
    "uuid.*": "`onthedot.ids`",
}
# The only files that may use these names. Add another one only with a reason, and keep the list short.
SOURCES = {
    "clock.py": "the one place that reads the time",
    "ids.py": "the one place that draws randomness",
}


def deciding_findings(source: str) -> list[Finding]:
    tree = ast.parse(source)
    return sorted(
        banned_imports(tree, IMPORTS_BANNED_IN_DECIDING)
        + banned_uses(tree, NAMES_BANNED_IN_DECIDING)
        + banned_builtins(tree, BUILTINS_BANNED_IN_DECIDING)
    )


def impure_findings(source: str) -> list[Finding]:
    return banned_uses(ast.parse(source), BANNED_EVERYWHERE)


def swallowing_findings(source: str) -> list[Finding]:
    return swallowed_errors(ast.parse(source))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_deciding_code_is_pure():
    files = python_files(*(PACKAGE / place for place in DECIDING))
    found = [finding.at(relative(path)) for path in files for finding in deciding_findings(path.read_text())]
    assert not found, report("deciding code has no clock, no randomness and no I/O", found)


@pytest.mark.parametrize("place", DECIDING)
def test_the_folders_of_deciding_code_exist(place):
    assert python_files(PACKAGE / place), f"nothing at src/onthedot/{place}; name its new place in DECIDING"


def test_only_the_named_files_read_the_time_and_draw_randomness():
    allowed = {PACKAGE / name for name in SOURCES}
    files = [path for path in python_files(PACKAGE, VERIFY) if path not in allowed]
    found = [finding.at(relative(path)) for path in files for finding in impure_findings(path.read_text())]
    assert not found, report(f"only {', '.join(SOURCES)} may read the time and draw randomness", found)


@pytest.mark.parametrize("name", SOURCES)
def test_every_named_file_still_needs_its_exception(name):
    path = PACKAGE / name
    assert path.is_file(), f"src/onthedot/{name} does not exist; remove it from SOURCES"
    assert impure_findings(path.read_text()), f"src/onthedot/{name} needs no exception; remove it from SOURCES"


def test_no_error_is_swallowed():
    found = [
        finding.at(relative(path))
        for path in python_files(PACKAGE, VERIFY)
        for finding in swallowing_findings(path.read_text())
    ]
    assert not found, report("an error must be handled, recorded or raised, and never ignored", found)


# --- the checks themselves can fail --------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from os import path",
        "from asyncio import sleep",
        "from pathlib import Path",
        "import sqlite3 as db",
        "def late():\n    import random",
        "import datetime\nx = datetime.datetime.now(datetime.UTC)",
        "from datetime import datetime\nx = datetime.utcnow()",
        "from datetime import datetime as dt\nx = dt.now",
        "import datetime as d\nx = d.date.today()",
        "from datetime import date\nx = date.today()",
        "from onthedot import clock\nnow = clock.SystemClock().now()",
        "from onthedot.ids import RandomIds",
        "print('hello')",
        "with open('jobs.csv') as file:\n    pass",
    ],
)
def test_impure_deciding_code_is_found(source):
    assert deciding_findings(source)


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import UTC, datetime, timedelta\nx = datetime(2026, 3, 29, tzinfo=UTC) + timedelta(1)",
        "from zoneinfo import ZoneInfo\nx = ZoneInfo('Europe/Berlin')",
        "def decide(clock, now):\n    return clock.now() or now",
        "from onthedot.clock import SECOND, Micros",
        "from onthedot.rules import time_of_day",
        "from .time import parse",
        "def f(line):\n    return line.open()",
    ],
)
def test_pure_deciding_code_passes(source):
    assert deciding_findings(source) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import time\ntime.time_ns()", "time.time_ns"),
        ("import time as t\nt.monotonic()", "time.monotonic"),
        ("from time import sleep", "time.sleep"),
        ("from dataclasses import field\nimport time\nx = field(default_factory=time.time)", "time.time"),
        ("import time\ntime.clock_gettime_ns(1)", "time.clock_gettime_ns"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime\ndatetime.utcnow()", "datetime.datetime.utcnow"),
        ("import random\nrandom.random()", "random.random"),
        ("from random import *", "random.*"),
        ("from uuid import uuid4 as new", "uuid.uuid4"),
        ("import secrets", "secrets"),
        ("import os\nos.urandom(8)", "os.urandom"),
        ("from os import urandom", "os.urandom"),
    ],
)
def test_other_uses_of_time_and_randomness_are_found(source, name):
    assert name in [finding.name for finding in impure_findings(source)]


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.strftime('%H')",
        "import os\nos.environ['HOME']",
        "def f(random):\n    random.choice()",
    ],
)
def test_harmless_uses_pass(source):
    assert impure_findings(source) == []


@pytest.mark.parametrize(
    "handler",
    [
        "except:\n    raise",
        "except Exception:\n    pass",
        "except BaseException as error:\n    ...",
        "except (ValueError, Exception):\n    'a comment in disguise'",
    ],
)
def test_swallowed_errors_are_found(handler):
    assert swallowing_findings(f"try:\n    work()\n{handler}")


def test_suppressing_every_error_is_found():
    assert swallowing_findings("import contextlib\nwith contextlib.suppress(Exception):\n    work()")


@pytest.mark.parametrize("handler", ["except ValueError:\n    pass", "except Exception as error:\n    record(error)"])
def test_handled_errors_pass(handler):
    assert swallowing_findings(f"try:\n    work()\n{handler}") == []


def test_a_finding_names_the_place_the_name_and_the_alternative():
    [finding] = impure_findings("x = 1\nfrom time import sleep")
    message = finding.at("src/onthedot/loop.py")
    assert message.startswith("src/onthedot/loop.py:2: `time.sleep` is banned here; use ")
