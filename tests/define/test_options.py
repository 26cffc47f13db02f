"""Options of a job are read from what people write, and every mistake is refused with a reason."""

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

import onthedot as otd
from onthedot.define.arguments import LIMIT, encode_arguments
from onthedot.define.check import parents_first
from onthedot.define.options import build_job
from onthedot.model.job import Call, Cron, Sleep

TASK = Call(handler="report")


def build(**options):
    return build_job(TASK, {"name": "report", **options})


def test_options_become_a_job():
    job = build(
        schedule="every 1h30m", timeout="20m", retry=5, catch_up="none", guarantee="at_least_once", args={"a": 1}
    )
    assert job.schedules == (otd.every("1h30m"),)
    assert (job.timeout, job.retry.attempts, job.catch_up.mode) == (timedelta(minutes=20), 5, "none")
    assert build(schedules=["@daily", otd.every("1h")]).schedules == (otd.cron("@daily"), otd.every("1h"))


def test_a_job_needs_no_schedule():
    assert build().schedules == ()


BAD: dict[str, tuple[dict, list[str]]] = {
    "unknown key": ({"quue": 1, "timout": "5s"}, ["unknown option 'quue'", "did you mean 'timeout'?"]),
    "bad cron": ({"schedule": "61 * * * *"}, ["minute", "61"]),
    "impossible date": ({"schedule": "0 0 31 2 *"}, ["0 0 31 2 *"]),
    "unknown zone": (
        {"schedule": Cron(expression="0 0 * * *", tz="Europe/Berln")},
        ["'Europe/Berln'", "Europe/Berlin"],
    ),
    "owner": ({"owner": 3}, ["owner: expected str, got int 3"]),
    "both": ({"schedule": "@daily", "schedules": ["@hourly"]}, ["expected either 'schedule' or 'schedules', got both"]),
    "not a schedule": ({"schedule": 5}, ["schedule: expected cron(…)"]),
    "a list as the schedule": (
        {"schedule": ["@daily"]},
        ["schedule: expected one schedule, got a list; write schedules=[…]"],
    ),
    "jitter of the job": ({"jitter": "10s"}, ["unknown option 'jitter'; give it to the schedule: schedule=otd.every("]),
    "zone of the job": ({"tz": "UTC"}, ["unknown option 'tz'; give it to the schedule: schedule=otd.cron("]),
    "tags": ({"tags": ["a"]}, ["unknown option 'tags'; write labels=[…]"]),
    "retries": ({"retries": 3}, ["unknown option 'retries'; write retry=3"]),
    "rate as text": ({"rate": "10/s"}, ["rate: expected how many", "got '10/s'; write otd.Rate(10, '1s')"]),
    "rate as text with a number": ({"rate": "5 / 30s"}, ["write otd.Rate(5, '30s')"]),
    "rate as another text": ({"rate": "often"}, ["got 'often'; write otd.Rate(10, '1s')"]),
    "negative time-out": ({"timeout": "-5s"}, ["timeout: expected a length of time"]),
    "zero time-out": ({"timeout": 0}, ["timeout: expected a length of time above zero, got 0"]),
    "time-out of another kind": ({"timeout": True}, ["timeout: expected text like '1h30m'", "bool"]),
    "retry": ({"retry": "often"}, ["retry.attempts: expected a whole number from 1 to 1000, got 'often'"]),
    "catch-up": ({"catch_up": "most"}, ["catch_up: expected one of 'none', 'last', 'all', got 'most'"]),
    "guarantee": ({"guarantee": "exactly"}, ["guarantee: expected one of 'at_least_once', 'at_most_once'"]),
    "retries once": ({"guarantee": "at_most_once", "retry": 3}, ["a retry is a second execution"]),
    "name": ({"name": "a b\n"}, ["name: expected letters, digits"]),
    "namespace": ({"namespace": ""}, ["namespace: expected letters, digits"]),
    "non-JSON arguments": ({"args": {"when": object()}}, ["arguments: expected JSON", "object"]),
    "keys that are not text": ({"args": {"a": {1: 2}}}, ["expected text as the keys"]),
    "not a number": ({"args": {"a": float("nan")}}, ["arguments: expected JSON"]),
    "arguments of another kind": ({"args": [1]}, ["args: expected mapping, got list"]),
    "oversized arguments": ({"args": {"a": "x" * LIMIT}}, [f"at most {LIMIT} characters of JSON, got"]),
    "the same schedule twice": ({"schedules": ["@daily", "0 0 * * *", "@daily"]}, ["each to be there once, got 2"]),
    "rate": ({"rate": 0}, ["rate: expected a whole number from 1 to 1000000, got 0"]),
    "after nobody": ({"after": []}, ["after: expected the names of one or more jobs, got []"]),
    "after a number": ({"after": 5}, ["after: expected the names of jobs such as ['load', 'clean'], got 5"]),
    "after numbers": ({"after": ["a", 5]}, ["after: expected the names of one or more jobs, got ['a', 5]"]),
    "after one twice": ({"after": ["a", "a"]}, ["after: expected each job to be named once, got a, a"]),
    "after no name": ({"after": ["a b"]}, ["after: expected the names of jobs, got 'a b'"]),
    "after itself": ({"after": ["a", "report"]}, ["after: expected other jobs, got 'report' itself"]),
    "after too many": ({"after": [f"j{n}" for n in range(101)]}, ["after: expected at most 100 jobs, got 101"]),
    "recoveries": ({"max_recoveries": -1}, ["max_recoveries: expected zero or more"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused_with_a_reason(case):
    options, words = BAD[case]
    with pytest.raises(otd.DefinitionError) as refused:
        build(**options)
    for word in words:
        assert word in str(refused.value)


def test_all_problems_are_reported_at_once():
    with pytest.raises(otd.DefinitionError) as refused:
        build(timeout="soon", retry=0, guarantee="maybe", colour="red", schedule="every never")
    assert len(refused.value.problems) == 5
    assert str(refused.value).startswith("job 'report': \n  - ")


def test_a_guarantee_given_as_text_is_refused():
    """It would escape the rule about retries, and could not be stored."""
    words: Any = "at_most_once"
    nap = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), guarantee=words, retry=otd.Retry(3))
    with pytest.raises(otd.DefinitionError, match=r"guarantee: expected a Guarantee .*, got 'at_most_once'"):
        otd.Scheduler("memory:").add(nap)


def test_arguments_are_encoded_as_canonical_json():
    assert encode_arguments({"b": (1, 2), "a": None}, subject="") == '{"a":null,"b":[1,2]}'


def test_a_refused_definition_leaves_nothing_behind():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.DefinitionError):
        sched.job(timeout="-1s")(lambda: None)
    assert sched.jobs == {}

    @sched.job(name="report")
    async def first() -> None: ...

    with pytest.raises(otd.DuplicateJob, match="'report' is defined already"):
        sched.job(name="report")(first)
    assert list(sched.jobs) == ["report"]


def test_an_unknown_handler_and_a_bad_task_are_refused():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.UnknownHandler, match="no handler 'reprot' is registered here"):
        sched.add(otd.Job(name="x", task=Call(handler="reprot")))
    with pytest.raises(otd.DefinitionError, match="sleep: expected a length of time"):
        sched.add(otd.Job(name="nap", task=Sleep(duration=timedelta(seconds=-1))))
    assert sched.jobs == {}


async def test_arguments_that_do_not_fit_the_handler_are_refused_before_anything_is_stored(tmp_path):
    sched = otd.Scheduler(f"sqlite:///{tmp_path / 'x.db'}")

    @sched.job(args={"regoin": "eu"})
    async def report(region: str) -> None: ...

    with pytest.raises(otd.ArgumentsError, match=r"arguments do not fit report\(region: str\)"):
        await sched.start()
    assert not (tmp_path / "x.db").exists()


async def test_a_submit_is_checked_before_it_is_stored():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def report(region: object = "eu") -> None: ...

    @sched.job
    async def paged(page: int) -> None: ...

    async with sched:
        with pytest.raises(otd.ArgumentsError, match="unexpected keyword argument 'page'"):
            await sched.submit("report", {"page": 1})
        with pytest.raises(otd.ArgumentsError, match="missing a required argument: 'page'"):
            await sched.submit("paged")
        with pytest.raises(otd.ArgumentsError, match="expected JSON"):
            await sched.submit("report", {"region": object()})
        with pytest.raises(otd.DefinitionError, match="delay: expected a length of time"):
            await sched.submit("report", delay="-1s")
        assert await sched.get_run(1) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://x", "or 'redis://host/0', got 'mysql://x'"),
        ("postgres://x?pooler=some", "option pooler: expected 'none' or 'transaction'"),
        ("sqlit:///x.db", "did you mean 'sqlite'?"),
        ("sqlite://x.db", "expected 'sqlite:///file.db'"),
        ("sqlite:///", "expected 'sqlite:///file.db'"),
        ("memory:x", "nothing after it"),
        ("", "expected 'memory:'"),
    ],
)
async def test_a_bad_store_url_says_what_was_expected(url, words):
    with pytest.raises(otd.DefinitionError) as refused:
        await otd.Scheduler(url).start()
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: otd.Settings(seats=0), "seats: expected a number above zero, got 0"),
        (lambda: otd.Settings(api_rate=0.0), "api_rate: expected a number above zero, got 0.0"),
        (lambda: otd.Settings(api_rate=float("nan")), "api_rate: expected a number above zero, got nan"),
        (lambda: otd.Settings(api_connections=1), "api_connections: expected a number from 2 to 1000, got 1"),
        (lambda: otd.Settings(queues=()), "queues: expected at least one"),
        (lambda: otd.Settings(term_ttl=1, renew_every=1), "three times renew_every"),
        (lambda: otd.Settings(sign_on="https://example.org/"), "sign_on: expected an issuer and a client id"),
        (lambda: otd.Settings(sign_on="http://x.org", sign_on_client="c"), "sign_on: expected an https URL"),
        (lambda: otd.Settings(lookahead=1_000_000), "lookahead: expected more than term_ttl"),
    ],
)
def test_settings_that_cannot_work_are_refused(make, words):
    with pytest.raises(otd.DefinitionError) as refused:
        make()
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "roles", "cgroups", "queues", "labels", "http_allow", "container_mounts", "allow_hosts", "trusted_proxies",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("text", "instead"),
    [("mail", '("mail",)'), ("mail, bulk", '("mail", "bulk")'), ("", "()"), ('a"b', '("a\\"b",)')],
)
def test_a_setting_that_is_a_list_of_names_refuses_a_plain_text(name: str, text: str, instead: str):
    """A text is a sequence too: `queues="mail"` once served the queues m, a, i and l."""
    with pytest.raises(otd.DefinitionError) as refused:
        otd.Settings(**{name: text})  # type: ignore[arg-type]
    assert refused.value.problems == [f"{name}: expected a list of names, got {text!r}; write {instead}"]


def test_every_setting_that_is_a_list_refuses_a_plain_text():
    several = {one.name for one in fields(otd.Settings) if "tuple" in str(one.type)}
    with pytest.raises(otd.DefinitionError) as refused:
        otd.Settings(**dict.fromkeys(several, "mail"))  # type: ignore[arg-type]
    assert {problem.partition(":")[0] for problem in refused.value.problems} == several


def test_a_job_may_run_after_others():
    assert build(after="load").after == otd.After("load")
    assert build(after=["load", "clean"]).after == build(after=otd.After("clean", "load")).after
    assert build(after=otd.After("load", any=True, on="failure")).after == otd.After("load", any=True, on="failure")
    assert build().after is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"on": "never"}, "after.on: expected one of 'success', 'failure', 'either', got 'never'"),
        ({"any": "yes"}, "after.any: expected True or False, got 'yes'"),
    ],
)
def test_a_wrong_option_of_after_is_refused(wrong, said):
    with pytest.raises(otd.DefinitionError, match=said):
        otd.After("load", **wrong)


def test_jobs_are_stored_parents_first():
    """Jobs without parents stay in the order of the program."""
    after = {"report": ["clean", "elsewhere"], "tick": [], "clean": ["load"], "load": [], "other": ["report"]}
    jobs = [build_job(TASK, {"name": name, "after": parents or None}) for name, parents in after.items()]
    order = [job.name for job in parents_first(jobs)]
    assert sorted(order) == sorted(after)
    assert all(order.index(parent) < order.index(name) for name in after for parent in after[name] if parent in after)
    plain = [build_job(TASK, {"name": name}) for name in ("c", "a", "b")]
    assert parents_first(plain) == plain


def test_a_cycle_of_jobs_is_refused():
    after = {"a": "c", "b": "a", "c": "b"}
    jobs = [build_job(TASK, {"name": name, "after": parent}) for name, parent in after.items()]
    with pytest.raises(otd.DependencyCycle) as caught:
        parents_first(jobs)
    assert any(cycle in str(caught.value) for cycle in ("a → b → c → a", "b → c → a → b", "c → a → b → c"))


WRONG_CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = {
    "Retry": (otd.Retry, (3,), {"max_attempts": 3}, "Retry: unknown argument 'max_attempts', did you mean 'attempts'?"),
    "Settings": (otd.Settings, (), {"seat": 3}, "Settings: unknown argument 'seat', did you mean 'seats'?"),
    "Step": (otd.Step, (), {"script": "x"}, "Step: expected name=…, got none"),
    "Http": (otd.Http, (), {"url": "x", "verb": "GET"}, "Http: unknown argument 'verb'; known: body, expect, headers"),
    "no names": (otd.Http, ("https://x",), {}, "Http: expected at most 0 arguments without a name, got 1; write their"),
    "twice": (otd.Rate, (3, "1s"), {"per": "1m"}, "Rate: argument 'per' is given twice"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_argument_of_a_constructor_is_explained(name: str):
    kind, args, given, expected = WRONG_CALLS[name]
    with pytest.raises(otd.DefinitionError, match=re.escape(expected)) as caught:
        kind(*args, **given)
    assert isinstance(caught.value, TypeError), "expected a TypeError, which programs may catch already"


KEYS: dict[str, dict[str, Any]] = {
    "concurrency.key": {"concurrency": otd.Limit(2, key="tenat")},
    "rate.key": {"rate": otd.Rate(2, key="tenat")},
    "share": {"share": "tenat"},
}


@pytest.mark.parametrize("option", KEYS)
def test_a_limit_by_an_argument_that_does_not_exist_is_refused(option: str):
    sched = otd.Scheduler("memory:")
    with pytest.raises(
        otd.DefinitionError, match=rf"{option}: expected an argument of .*'tenat', did you mean 'tenant'"
    ):

        @sched.job(**KEYS[option])
        def bill(tenant: str) -> None: ...

    with pytest.raises(otd.DefinitionError, match=rf"{option}: expected a parameter .*'tenat', did you mean 'tenant'"):
        sched.command("bill", ["bill"], params=[otd.Param(name="tenant", default="a")], **KEYS[option])
    with pytest.raises(otd.DefinitionError, match=rf"{option}: expected a parameter .*; declare it in 'params'"):
        sched.command("bill", ["bill"], **KEYS[option])
    assert not sched.jobs


def test_a_limit_by_any_argument_fits_a_function_with_keyword_arguments():
    sched = otd.Scheduler("memory:")

    @sched.job(concurrency=otd.Limit(2, key="tenant"))
    def bill(**given: str) -> None: ...

    assert sched.jobs["bill"].concurrency == otd.Limit(2, key="tenant")
