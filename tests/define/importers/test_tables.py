"""CSV tables of several forms become jobs, and bad rows get remarks."""

from __future__ import annotations

from pathlib import Path

import pytest

import onthedot as otd
from onthedot.define.importers.tables import read_table
from onthedot.model.task import Call, Command, Http, Noop

CORPUS = Path(__file__).parent / "corpus"


def test_a_table_of_users_jobs_and_intervals_is_read():
    found = read_table((CORPUS / "document.csv").read_text(), "document.csv")
    often, once, bare = found.jobs
    assert (often.name, often.owner, often.task) == ("143214", "909", Noop())
    assert often.schedules == (otd.every("1h30m", anchor="2024-02-24T21:09:02Z"),)
    assert once.schedules == (otd.every("2h", anchor="2024-02-24T20:09:02Z", run_once=True),)
    assert bare.schedules == (otd.every("1h"),)
    told = [str(one) for one in found.remarks]
    assert told[0] == "document.csv:2:1: the table does not say what is to be done: 'noop' stands in its place"
    assert any("document.csv:4:1: is_recurring: expected true or false, got 'maybe'" in one for one in told)


def test_a_table_of_commands_is_read_with_remarks():
    found = read_table((CORPUS / "jobs.csv").read_text(), "jobs.csv")
    clean, two = found.jobs
    assert (clean.name, clean.owner, clean.priority) == ("clean", "ada", "high")
    assert clean.task == Command(script="rm -rf tmp, and more")
    assert two.name == "two-lines"
    told = [str(one) for one in found.remarks]
    assert "jobs.csv:1:1: unknown column 'colour'" in told[0]
    assert any(one.startswith("jobs.csv:5:1: it cannot be a job: schedule") for one in told)
    assert any(one.startswith("jobs.csv:6:1: expected 8 columns, got 2") for one in told)


def test_an_exported_table_is_read_back():
    table = "name,namespace,owner,schedule,task,state,next\n"
    rows = [
        "a,default,,@daily,call report,paused,",
        'b,team,,"every 1h; at 2027-01-01T00:00Z",GET https://x.org/,active,',
    ]
    one, two = read_table(table + "\n".join(rows)).jobs
    assert one.task == Call(handler="report")
    assert two.task == Http(url="https://x.org/")
    assert two.schedules == (otd.every("1h"), otd.at("2027-01-01T00:00Z"))


@pytest.mark.parametrize("text", ["", "\n", "a,b\n1,2", "name\n", "name,schedule\n\0,x", '"'])
def test_an_invalid_table_gives_no_job(text):
    assert read_table(text).jobs == []


def test_a_schedule_in_a_table_may_have_four_fields():
    [job] = read_table("name,schedule,run\na,30 0 2 *,ls\n").jobs
    assert job.schedules == (otd.cron("30 0 2 *", seconds=True),)
