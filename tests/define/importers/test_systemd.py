"""systemd timers and their services become jobs, and every difference gets a remark."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.clock import to_datetime, to_micros
from onthedot.define.importers.systemd import CannotSay, entries, read_calendar, read_timers
from onthedot.model.task import Bounds, Command, Step, Steps
from onthedot.schedules import slots

CORPUS = Path(__file__).parent / "corpus"


def units(*names: str) -> dict[str, str]:
    return {name: (CORPUS / name).read_text() for name in names}


def test_a_timer_and_its_service_become_a_job():
    [found] = read_timers(units("backup.timer", "backup.service"))
    [job] = found.jobs
    assert (job.name, job.owner, job.catch_up.mode, job.overlap) == ("backup", "backup", "last", otd.Overlap("skip"))
    assert job.schedules == (
        otd.cron("30 2 * * MON,TUE,WED,THU,FRI", tz="Europe/Berlin", jitter="5m30s", gap="skip"),
        otd.cron("0 4 * * SAT,SUN", jitter="5m30s"),
    )
    assert job.task == Steps(
        env={"LEVEL": "9", "TITLE": "a b", "MODE": "full"},
        steps=(
            Step(name="1 mkdir", argv=("/usr/bin/mkdir", "-p", "/srv/out"), directory="/srv/shop"),
            Step(name="2 backup", argv=("/usr/bin/backup", "--all", "--to", "/srv/out/a b"), directory="/srv/shop"),
            Step(name="3 echo", argv=("/usr/bin/echo", "done", "100%"), directory="/srv/shop"),
        ),
    )
    assert (job.timeout, job.bounds) == (timedelta(minutes=90), Bounds(memory=512 << 20, processes=32))
    told = [str(one) for one in found.remarks]
    assert any(one.startswith("backup.timer:8:1: AccuracySec=1us: runs start on the dot") for one in told)
    assert any(one.startswith("backup.service:7:1: it runs as backup there") for one in told)
    assert any(one.startswith("backup.service:11:1: EnvironmentFile=") for one in told)
    assert any("backup.service:12:1: ExecStartPre=-…: a failure of it is passed over" in one for one in told)
    assert any(one.startswith("backup.service:19:1: Nice=") for one in told)


def test_monotonic_timers_become_intervals():
    [found] = read_timers(units("poll.timer", "poller.service"))
    [job] = found.jobs
    assert job.schedules == (otd.every("1h"), otd.gap("10m"))
    assert job.task == Command(argv=("/usr/bin/poll", "--from", "${SOURCE}", "--unit", "%n"))
    assert job.catch_up.mode == "none"
    told = " ".join(map(str, found.remarks))
    for said in ("OnBootSec=2min: it counts from the start of the machine", "$SOURCE is not set in this unit", "%i"):
        assert said in told


def test_an_event_that_no_schedule_can_express_gets_a_remark():
    [found] = read_timers(units("odd.timer", "odd.service"))
    [job] = found.jobs
    assert job.schedules == (
        otd.cron("0 0 L-2 * *"), otd.cron("0 9 * * MON#1"), otd.at("2027-01-01T00:00Z"), otd.cron("30 59 23 L * *"),
        otd.cron("0-59/10 * * * *"), otd.cron("0 0 1 1,4,7,10 *"),
    )  # fmt: skip
    told = {one.at.line: one.problem for one in found.remarks if one.at}
    assert "a date and weekdays together" in told[2]
    assert 3 not in told
    assert "more than one instant" in told[6]
    assert "OnCalendar=nonsense" in told[10]


def test_a_timer_without_its_service_is_left_out():
    [found] = read_timers(units("backup.timer"))
    assert found.jobs == []
    assert "expected the service backup.service beside it" in str(found.remarks[0])


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("minutely", "* * * * *"),
        ("Weekly", "0 0 * * MON"),
        ("*-*-* 4:00:00", "0 4 * * *"),
        ("*-01,07-01 00:00", "0 0 1 1,7 *"),
        ("05:40", "40 5 * * *"),
        ("Sat..Mon 10:00", "0 10 * * MON,SAT,SUN"),
        ("Thu,Fri 12:00", "0 12 * * THU,FRI"),
        ("Monday 12:00", "0 12 * * MON"),
        ("*:0/5:30", "30 0-59/5 * * * *"),
        ("*-*-01..07 00:00", "0 0 1-7 * *"),
        ("08..18/2:00", "0 8-18/2 * * *"),
        ("*-*-*", "0 0 * * *"),
        ("12-24", "0 0 24 12 *"),
    ],
)
def test_a_calendar_event_becomes_a_cron_expression(text, cron):
    assert read_calendar(text) == {"cron": cron}
    otd.cron(cron)


@pytest.mark.parametrize("text", ["", " ", "Mo..", "x", "1", "25", "Foo 12:00", "*-*-* a:b", "12:00 12:00", "*-*-1.5"])
def test_an_invalid_calendar_event_is_refused(text):
    with pytest.raises(CannotSay):
        read_calendar(text)


def test_an_empty_value_removes_the_earlier_ones():
    timer = "[Timer]\nOnCalendar=daily\nOnCalendar=\nOnCalendar=hourly\n"
    [found] = read_timers({"a.timer": timer, "a.service": "[Service]\nExecStart=/bin/true"})
    assert found.jobs[0].schedules == (otd.cron("0 * * * *"),)
    assert [entry.line for entry in entries(timer)] == [2, 3, 4]


# The output of `systemd-analyze calendar` of systemd 252 for nights of clock changes in Berlin, in UTC.
NIGHTS = [
    ("*-*-* 02:30:00", "2026-03-28T23:10Z", ["2026-03-30T00:30Z", "2026-03-31T00:30Z"]),
    ("*-*-* 02:30:00", "2026-10-24T23:00Z", ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]),
    ("*-*-* 02/4:30:00", "2026-03-29T00:10Z", ["2026-03-29T04:30Z", "2026-03-29T08:30Z"]),
]


@pytest.mark.parametrize(("event", "after", "expected"), NIGHTS)
def test_events_in_nights_of_clock_changes_start_as_with_systemd(event: str, after: str, expected: list[str]):
    units = {"a.timer": f"[Timer]\nOnCalendar={event} Europe/Berlin", "a.service": "[Service]\nExecStart=/bin/true"}
    [found] = read_timers(units)
    assert found.remarks == []
    coming = slots(found.jobs[0].schedules[0], to_micros(datetime.fromisoformat(after)), origin=0)
    assert [to_datetime(slot) for slot in islice(coming, 2)] == [datetime.fromisoformat(at) for at in expected]


def test_a_frequent_event_gets_a_remark_about_the_repeated_hour():
    timer = "[Timer]\nOnCalendar=*:0/30\nOnCalendar=daily\nOnStartupSec=1min"
    [found] = read_timers({"a.timer": timer, "a.service": "[Service]\nExecStart=/bin/true"}, tz="Europe/Berlin")
    assert found.jobs[0].schedules == (
        otd.cron("0-59/30 * * * *", tz="Europe/Berlin"), otd.cron("0 0 * * *", tz="Europe/Berlin", gap="skip"),
    )  # fmt: skip
    assert [(told.at.line if told.at else 0, told.problem) for told in found.remarks] == [
        (2, "OnCalendar=*:0/30: systemd leaves out the hour that a clock change repeats; here it runs on"),
        (4, "OnStartupSec=1min: it counts from the start of systemd; not kept"),
    ]
    assert (found.lost, found.zone_assumed) == ([], True)


def test_a_timer_that_only_starts_at_boot_is_left_out():
    units = {"a.timer": "[Timer]\nOnBootSec=1min", "a.service": "[Service]\nExecStart=/bin/true"}
    [found] = read_timers(units)
    assert found.jobs == []
    assert [told.problem for told in found.lost] == [
        "OnBootSec=1min: it counts from the start of the machine; left out", "no time of it can be kept here; left out",
    ]  # fmt: skip


def test_all_isolation_options_get_one_remark():
    service = "[Service]\nExecStart=/bin/true\nPrivateTmp=yes\nProtectSystem=full\nNice=5\nNoNewPrivileges=yes"
    [found] = read_timers({"a.timer": "[Timer]\nOnCalendar=daily", "a.service": service})
    assert [str(told) for told in found.remarks] == [
        "a.service:3:1: PrivateTmp, ProtectSystem, NoNewPrivileges: see 'isolation' and 'bounds' for how a program is "
        "kept apart; not kept",
        "a.service:5:1: Nice=5: there is no such thing here; not kept",
    ]


def test_variables_of_the_same_unit_are_filled_in():
    """As in systemd: `${NAME}` is filled in anywhere, `$NAME` only as a separate word, which is split; `$$` is `$`."""
    service = (
        "[Service]\nEnvironment=LEVEL=high 'FLAGS=-a  -b' EMPTY=\n"
        "ExecStart=/usr/bin/x $LEVEL $FLAGS $EMPTY --level=${LEVEL}! a$LEVEL $$HOME\n"
    )
    [found] = read_timers({"a.timer": "[Timer]\nOnCalendar=daily", "a.service": service})
    assert found.jobs[0].task == Command(
        argv=("/usr/bin/x", "high", "-a", "-b", "--level=high!", "a$LEVEL", "$HOME"),
        env={"LEVEL": "high", "FLAGS": "-a  -b", "EMPTY": ""},
    )
    assert (found.remarks, found.incomplete) == ([], [])


@pytest.mark.parametrize(
    ("command", "argv", "told"),
    [
        ("/usr/bin/x $LEVEL", ("/usr/bin/x", "$LEVEL"), ["$LEVEL is not set in this unit"]),
        ("/usr/bin/x -${LEVEL}", ("/usr/bin/x", "-${LEVEL}"), ["$LEVEL is not set in this unit"]),
        (":/usr/bin/x ${LEVEL}", ("/usr/bin/x", "${LEVEL}"), []),
    ],
)
def test_an_unknown_variable_is_kept_with_a_remark(command: str, argv: tuple[str, ...], told: list[str]):
    units = {"a.timer": "[Timer]\nOnCalendar=daily", "a.service": f"[Service]\nExecStart={command}"}
    [found] = read_timers(units)
    assert found.jobs[0].task == Command(argv=argv)
    assert [one.problem.removeprefix("ExecStart: ").partition(":")[0] for one in found.incomplete] == told
