"""CronJobs as people have them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.define.importing.kubernetes import read_cron_jobs
from onthedot.task import Bounds, Container, Mount

TEXT = (Path(__file__).parent / "corpus" / "cronjobs.yaml").read_text()


def test_the_jobs():
    found = read_cron_jobs(TEXT, "cronjobs.yaml")
    report, tick = found.jobs
    assert (report.name, report.namespace, report.overlap) == ("report", "shop", otd.Overlap("skip"))
    assert report.schedules == (otd.cron("30 2 * * 1-5", tz="Europe/Berlin"),)
    assert report.catch_up == otd.CatchUp("all", limit=1, window="1h")
    assert report.retry == otd.Retry(3, delay="10s", max_delay="6m")
    assert (report.timeout, report.bounds) == (timedelta(minutes=10), Bounds(memory=256 << 20))
    assert report.task == Container(
        image="registry.example.org/shop/report:1.4",
        argv=("/bin/report", "--all", "$(REGION)"),
        env={"REGION": "eu", "TOKEN": "${{ secrets.SHOP_API_TOKEN }}"},
        network="bridge",
        user="1000:1000",
        mounts=(Mount(source="/srv/data", target="/data"),),
    )
    assert (tick.schedules, tick.overlap, tick.retry.attempts) == ((otd.every("90s"),), otd.Overlap("allow"), 7)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("successfulJobsHistoryLimit: history is kept", 13),
        ("suspend: a definition does not say that", 14),
        ("activeDeadlineSeconds counts for each attempt", 18),
        ("serviceAccountName: there is no such thing here", 22),
        ("command: the image's own entrypoint stays", 27),
        ("$(NAME) in arguments is filled in by Kubernetes", 25),
        ("TOKEN: set the secret with 'onthedot secret set SHOP_API_TOKEN'", 31),
        ("POD: only values and secrets are known here", 33),
        ("the volume 'scratch' is no directory", 39),
        ("a second container of the pod", 40),
        ("expected a CronJob, got Service", 52),
        ("which never comes", 56),
    ],
)
def test_what_could_not_be_mapped_is_told_with_its_line(said, line):
    found = read_cron_jobs(TEXT, "cronjobs.yaml")
    lines = [told.at.line for told in found.remarks if told.at and said in told.problem]
    assert lines, [str(told) for told in found.remarks]
    assert lines == [line]


@pytest.mark.parametrize(
    "text",
    ["", "---", "kind: CronJob", "[]", "kind: [", "kind: CronJob\nspec: {jobTemplate: 7}", "a: !!python/object:os.x {}",
     "kind: List\nitems: [7, {kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [7]}}}}}}]"],
)  # fmt: skip
def test_odd_ones(text):
    assert read_cron_jobs(text).jobs == []
