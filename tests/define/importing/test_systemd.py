"""Timers and their services as people have them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.define.importing.calendar import CannotSay, read_calendar
from onthedot.define.importing.systemd import entries, read_timers
from onthedot.task import Bounds, Command, Step, Steps

CORPUS = Path(__file__).parent / "corpus"


def units(*names: str) -> dict[str, str]:
    return {name: (CORPUS / name).read_text() for name in names}


def test_a_timer_and_its_service():
    [found] = read_timers(units("backup.timer", "backup.service"))
    [job] = found.jobs
    assert (job.name, job.owner, job.catch_up.mode, job.overlap) == ("backup", "backup", "last", otd.Overlap("skip"))
    assert job.schedules == (
        otd.cron("30 2 * * MON,TUE,WED,THU,FRI", tz="Europe/Berlin", jitter="5m30s"),
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
    assert any(one.startswith("backup.timer:8:1: AccuracySec: runs start on the dot") for one in told)
    assert any(one.startswith("backup.service:7:1: it runs as backup there") for one in told)
    assert any(one.startswith("backup.service:11:1: EnvironmentFile: ") for one in told)
    assert any("backup.service:12:1: ExecStartPre=-…: a failure of it is passed over" in one for one in told)
    assert any(one.startswith("backup.service:19:1: Nice: ") for one in told)


def test_rhythms_and_a_service_of_another_name():
    [found] = read_timers(units("poll.timer", "poller.service"))
    [job] = found.jobs
    assert job.schedules == (otd.every("1h"), otd.gap("10m"))
    assert job.task == Command(argv=("/usr/bin/poll", "--from", "${SOURCE}", "--unit", "%n"))
    assert job.catch_up.mode == "none"
    told = " ".join(map(str, found.remarks))
    for said in ("OnBootSec: it counts from the start of the machine", "variables are filled in by systemd", "%i"):
        assert said in told


def test_what_no_schedule_can_mean_is_told():
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


def test_a_timer_without_its_service():
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
def test_calendar_events(text, cron):
    assert read_calendar(text) == {"cron": cron}
    otd.cron(cron)


@pytest.mark.parametrize("text", ["", " ", "Mo..", "x", "1", "25", "Foo 12:00", "*-*-* a:b", "12:00 12:00", "*-*-1.5"])
def test_what_is_no_calendar_event(text):
    with pytest.raises(CannotSay):
        read_calendar(text)


def test_an_empty_value_forgets_those_before():
    timer = "[Timer]\nOnCalendar=daily\nOnCalendar=\nOnCalendar=hourly\n"
    [found] = read_timers({"a.timer": timer, "a.service": "[Service]\nExecStart=/bin/true"})
    assert found.jobs[0].schedules == (otd.cron("0 * * * *"),)
    assert [entry.line for entry in entries(timer)] == [2, 3, 4]
