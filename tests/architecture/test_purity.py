"""Time, randomness and the outside world come in by few doors, and deciding code has none of them."""

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

# The code that decides: the same arguments give the same answer, today, tomorrow and in the simulator.
DECIDING = (
    "schedules",
    "rules",
    "model",
)

ARGUMENT = "an argument of the function, handed in by the code that drives"

IMPORTS_BANNED_IN_DECIDING = {
    "asyncio": "a plain function; waiting is for the code that drives",
    "os": ARGUMENT,
    "pathlib": "text handed in by the code that reads files",
    "random": "a number handed in by the code that drives",
    "secrets": "an id handed in by the code that drives",
    "socket": ARGUMENT,
    "sqlite3": "values; recording is for the stores",
    "subprocess": "values; running is for the code that drives",
    "threading": "a plain function over frozen values",
    "time": "`now`, handed in by the code that drives",
    "uuid": "an id handed in by the code that drives",
}
CLOCK_READS = {
    "datetime.date.today": "`now` as an argument, or `onthedot.clock`",
    "datetime.datetime.now": "`now` as an argument, or `onthedot.clock`",
    "datetime.datetime.today": "`now` as an argument, or `onthedot.clock`",
    "datetime.datetime.utcnow": "`now` as an argument, or `onthedot.clock`",
}
DOORS_CLOSED_TO_DECIDING = CLOCK_READS | {
    "onthedot.clock.SystemClock": "`now`, handed in by the code that drives",
    "onthedot.ids": "an id or a number handed in by the code that drives",
    "onthedot.ids.*": "an id or a number handed in by the code that drives",
}
BUILTINS_BANNED_IN_DECIDING = {
    "input": ARGUMENT,
    "open": "text handed in by the code that reads files",
    "print": "a value; showing it is for the command line",
}

BANNED_EVERYWHERE = CLOCK_READS | {
    "os.urandom": "`onthedot.ids`",
    "random": "`onthedot.ids`",
    "random.*": "`onthedot.ids`",
    "secrets": "`onthedot.ids`",
    "secrets.*": "`onthedot.ids`",
    "time.clock_gettime*": "`onthedot.clock`",
    "time.monotonic*": "`onthedot.clock`",
    "time.sleep": "the clock's own waiting, which a test can turn",
    "time.time*": "`onthedot.clock`",
    "uuid": "`onthedot.ids`",
    "uuid.*": "`onthedot.ids`",
}
# The doors. A file of `testing/` or `verify/` may join them only with its reason here; two or three, not ten.
DOORS = {
    "clock.py": "the one place that reads the time",
    "ids.py": "the one place that draws randomness",
}


def deciding_findings(source: str) -> list[Finding]:
    tree = ast.parse(source)
    return sorted(
        banned_imports(tree, IMPORTS_BANNED_IN_DECIDING)
        + banned_uses(tree, DOORS_CLOSED_TO_DECIDING)
        + banned_builtins(tree, BUILTINS_BANNED_IN_DECIDING)
    )


def door_findings(source: str) -> list[Finding]:
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
def test_the_deciding_code_is_where_this_test_looks_for_it(place):
    assert python_files(PACKAGE / place), f"nothing at src/onthedot/{place}; name its new place in DECIDING"


def test_time_and_randomness_come_in_by_their_doors_only():
    doors = {PACKAGE / door for door in DOORS}
    files = [path for path in python_files(PACKAGE, VERIFY) if path not in doors]
    found = [finding.at(relative(path)) for path in files for finding in door_findings(path.read_text())]
    assert not found, report(f"time and randomness come in by {', '.join(DOORS)} only", found)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_is_still_used_as_one(door):
    path = PACKAGE / door
    assert path.is_file(), f"src/onthedot/{door} is gone; take it out of DOORS"
    assert door_findings(path.read_text()), f"src/onthedot/{door} needs no exception; take it out of DOORS"


def test_no_error_is_swallowed():
    found = [
        finding.at(relative(path))
        for path in python_files(PACKAGE, VERIFY)
        for finding in swallowing_findings(path.read_text())
    ]
    assert not found, report("an error is handled, recorded or let through; never dropped", found)


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
def test_impure_decisions_are_caught(source):
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
def test_pure_decisions_pass(source):
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
def test_time_and_randomness_by_another_door_are_caught(source, name):
    assert name in [finding.name for finding in door_findings(source)]


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.strftime('%H')",
        "import os\nos.environ['HOME']",
        "def f(random):\n    random.choice()",
    ],
)
def test_what_needs_no_door_passes(source):
    assert door_findings(source) == []


@pytest.mark.parametrize(
    "handler",
    [
        "except:\n    raise",
        "except Exception:\n    pass",
        "except BaseException as error:\n    ...",
        "except (ValueError, Exception):\n    'a comment in disguise'",
    ],
)
def test_swallowed_errors_are_caught(handler):
    assert swallowing_findings(f"try:\n    work()\n{handler}")


def test_suppressing_everything_is_caught():
    assert swallowing_findings("import contextlib\nwith contextlib.suppress(Exception):\n    work()")


@pytest.mark.parametrize("handler", ["except ValueError:\n    pass", "except Exception as error:\n    record(error)"])
def test_handled_errors_pass(handler):
    assert swallowing_findings(f"try:\n    work()\n{handler}") == []


def test_a_finding_says_what_where_and_what_instead():
    [finding] = door_findings("x = 1\nfrom time import sleep")
    message = finding.at("src/onthedot/loop.py")
    assert message.startswith("src/onthedot/loop.py:2: `time.sleep` is banned here; use ")
