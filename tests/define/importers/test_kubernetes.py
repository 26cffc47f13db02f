"""CronJobs of Kubernetes become jobs, and every difference gets a remark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.define.importers.kubernetes import read_cron_jobs
from onthedot.model.job import Cron, Pause
from onthedot.model.task import Bounds, Container, Mount

TEXT = (Path(__file__).parent / "corpus" / "cronjobs.yaml").read_text()


def test_cron_jobs_become_jobs():
    found = read_cron_jobs(TEXT, "cronjobs.yaml")
    report, tick = found.jobs
    assert (report.name, report.namespace, report.overlap) == ("report", "shop", otd.Overlap("skip"))
    assert report.schedules == (otd.cron("30 2 * * 1-5", tz="Europe/Berlin", gap="skip", fold="both"),)
    assert (report.paused, tick.paused) == (Pause(reason="suspended in Kubernetes"), None)
    assert report.catch_up == otd.CatchUp("all", limit=1, window="1h")
    assert report.retry == otd.Retry(3, delay="10s", max_delay="6m")
    assert (report.timeout, report.bounds) == (timedelta(minutes=10), Bounds(memory=256 << 20))
    assert report.task == Container(
        image="registry.example.org/shop/report:1.4",
        entrypoint="/bin/report",
        argv=("--all", "eu"),
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
        ("activeDeadlineSeconds counts for each attempt", 18),
        ("serviceAccountName: there is no such thing here", 22),
        ("'@every 90s': here counted from 1970-01-01", 49),
        ("TOKEN: set the secret with 'onthedot secret set SHOP_API_TOKEN'", 31),
        ("POD: only values and secrets are known here", 33),
        ("the volume 'scratch' is no directory", 39),
        ("a second container of the pod", 40),
        ("expected a CronJob, got Service", 52),
        ("which never comes", 56),
    ],
)
def test_a_field_that_cannot_be_mapped_gets_a_remark_with_its_line(said, line):
    found = read_cron_jobs(TEXT, "cronjobs.yaml")
    lines = [told.at.line for told in found.remarks if told.at and said in told.problem]
    assert lines, [str(told) for told in found.remarks]
    assert lines == [line]


@pytest.mark.parametrize(
    "text",
    ["", "---", "kind: CronJob", "[]", "kind: [", "kind: CronJob\nspec: {jobTemplate: 7}", "a: !!python/object:os.x {}",
     "kind: List\nitems: [7, {kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [7]}}}}}}]"],
)  # fmt: skip
def test_an_invalid_manifest_gives_no_job(text):
    assert read_cron_jobs(text).jobs == []


def manifest(schedule: str = "0 2 * * *", container: str = "{image: a}", more: str = "") -> str:
    pod = f"{{spec: {{template: {{spec: {{containers: [{container}]}}}}}}}}"
    return f"kind: CronJob\nmetadata: {{name: a}}\nspec:\n  schedule: '{schedule}'\n  jobTemplate: {pod}\n{more}"


@pytest.mark.parametrize(
    ("container", "entrypoint", "argv"),
    [
        ("{image: a}", "", ()),
        ("{image: a, args: [x, y]}", "", ("x", "y")),
        ("{image: a, command: [x]}", "x", ()),
        ("{image: a, command: [x, y], args: [z]}", "x", ("y", "z")),
        ("{image: a, command: [], args: [z]}", "", ("z",)),
    ],
)
def test_a_command_replaces_the_entrypoint_of_the_image(container: str, entrypoint: str, argv: tuple[str, ...]):
    found = read_cron_jobs(manifest(container=container))
    assert found.jobs[0].task == Container(image="a", entrypoint=entrypoint, argv=argv, network="bridge")
    assert found.remarks == []


@pytest.mark.parametrize(
    ("schedule", "more", "expected"),
    [
        (
            "30 2 * * *",
            "  timeZone: Europe/Berlin",
            otd.cron("30 2 * * *", tz="Europe/Berlin", gap="skip", fold="both"),
        ),
        ("CRON_TZ=Europe/Berlin 30 2 * * *", "", otd.cron("30 2 * * *", tz="Europe/Berlin", gap="skip", fold="both")),
        ("@daily", "  timeZone: Europe/Berlin", otd.cron("@daily", tz="Europe/Berlin", gap="skip", fold="both")),
        ("*/5 2 * * *", "  timeZone: Europe/Berlin", otd.cron("*/5 2 * * *", tz="Europe/Berlin")),
        ("30 2 * * *", "", otd.cron("30 2 * * *")),
        ("0 0 */2 * 1", "", otd.cron("0 0 1-31/2 * 1")),
    ],
)
def test_schedules_keep_their_zone_and_their_days(schedule: str, more: str, expected: Cron):
    found = read_cron_jobs(manifest(schedule, more=more))
    assert found.jobs[0].schedules == (expected,)
    assert found.zone_assumed == (expected.tz == "UTC")
    assert [told.problem for told in found.remarks] == (
        ["'0 0 */2 * 1': written as '0 0 1-31/2 * 1', which means the same here"] if "/2 * 1" in schedule else []
    )


@pytest.mark.parametrize(
    "text",
    [
        "{{- if .Values.enabled }}\n" + manifest() + "{{- end }}\n",
        manifest().replace("'0 2 * * *'", "{{ .Values.schedule | quote }}"),
        manifest().replace("name: a", 'name: "{{ include "shop.fullname" . }}"'),
        "{{/* about it */}}\n" + manifest(),
        '{{ $name := "x" }}\n' + manifest(),
    ],
)
def test_helm_sources_are_refused(text: str):
    found = read_cron_jobs(text, "cronjob.yaml")
    assert found.jobs == []
    [told] = found.lost
    assert "this is a Helm template: run 'helm template' first, and import what it writes; left out" in told.problem


def test_braces_of_other_tools_are_kept():
    assert read_cron_jobs(manifest(container="{image: a, args: ['{{ .Name }}']}")).jobs[0].task.argv == ("{{ .Name }}",)  # type: ignore[union-attr]


def test_variables_of_the_same_pod_are_filled_in():
    text = """
kind: CronJob
metadata: {name: a}
spec:
  schedule: "@daily"
  jobTemplate: {spec: {template: {spec: {containers: [{image: x, command: [sh, -c], args: %s, env: [
    {name: FOO, value: one}, {name: BAR, value: "$(FOO)-two"},
    {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}}}
"""
    found = read_cron_jobs(text % '["$(BAR) $$(FOO) $(date) $FOO"]')
    task = found.jobs[0].task
    assert isinstance(task, Container)
    assert (task.argv, task.env["BAR"]) == (("-c", "one-two $(FOO) $(date) $FOO"), "one-two")
    assert found.incomplete == []
    other = read_cron_jobs(text % '["$(KEY) $(OTHER)"]')
    assert [told.problem.partition(":")[0] for told in other.incomplete] == ["$(KEY)", "$(OTHER)"]
