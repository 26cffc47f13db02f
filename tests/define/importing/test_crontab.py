"""Crontabs as people have them."""

from __future__ import annotations

from pathlib import Path

import pytest

import onthedot as otd
from onthedot.define.importing.crontab import read_crontab
from onthedot.define.importing.imported import Imported
from onthedot.task import Command

CORPUS = Path(__file__).parent / "corpus"


def remarks(found: Imported) -> dict[int, str]:
    return {told.at.line if told.at else 0: told.problem for told in found.remarks}


def test_a_users_crontab():
    found = read_crontab((CORPUS / "user.crontab").read_text(), "user.crontab")
    by_name = {job.name: job for job in found.jobs}
    assert list(by_name) == ["backup", "sync.sh", "report", "find", "mail", "scatter", "backup-2", "morning"]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LEVEL": "very high"}
    assert by_name["backup"].task == Command(script="/usr/local/bin/backup --all > /var/log/backup.log 2>&1", env=env)
    assert by_name["backup"].schedules == (otd.cron("30 2 * * *"),)
    assert (by_name["backup"].catch_up.mode, by_name["backup"].overlap) == ("none", otd.Overlap("allow"))
    assert by_name["sync.sh"].schedules == (otd.cron("*/15 8-18 * * mon-fri"),)
    assert by_name["report"].task == Command(script="report --month $(date +%Y-%m)", env=env)
    assert by_name["mail"].task == Command(
        script='mail -s "hello" ann@example.org', stdin="Dear Ann,\n\nall is well: 100%.\n", env=env
    )
    assert by_name["scatter"].schedules == (otd.cron("H(0-59) 3 * * *"),)
    assert by_name["morning"].schedules == (otd.cron("0 9 * * *", tz="Europe/Berlin"),)


def test_what_it_cannot_say_is_told_line_by_line():
    told = remarks(read_crontab((CORPUS / "user.crontab").read_text(), "user.crontab"))
    assert "UTC is assumed" in told.pop(0)
    assert "mail is not sent" in told.pop(4)
    assert "'@reboot' names no time" in told.pop(12)
    assert "minute: expected 0-59, got '61'" in told.pop(18)
    assert "expected five fields and a command, got 'not a line'" in told.pop(19)
    assert told == {}


@pytest.mark.parametrize("system", [None, True])
def test_the_systems_crontab_names_users(system):
    found = read_crontab((CORPUS / "system.crontab").read_text(), "a/etc/crontab", tz="Europe/Berlin", system=system)
    hourly, daily, clean = found.jobs
    assert [job.owner for job in found.jobs] == ["root", "root", "www-data"]
    assert hourly.schedules == (otd.cron("17 * * * *", tz="Europe/Berlin", jitter="30m"),)
    assert hourly.task == Command(
        argv=("/bin/bash", "-c", "cd / && run-parts --report /etc/cron.hourly"), directory="/var/lib/cron"
    )
    assert clean.name == "clean.sh"
    assert daily.task.argv[2].startswith("test -x /usr/sbin/anacron || {")  # type: ignore[union-attr]
    assert "it runs as root there" in remarks(found)[7]


@pytest.mark.parametrize("text", ["", "\n#x\n", "* * * * *", "@daily", "=", "a=", "\0", "% % % % % %", "@every 5m x"])
def test_odd_ones(text):
    found = read_crontab(text)
    assert found.jobs == []
