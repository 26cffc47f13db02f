"""Hypothesis strategies for jobs of every kind with every option that `check_job` accepts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

import onthedot as otd
from onthedot.define.check import check_job
from onthedot.model.errors import DefinitionError
from onthedot.model.job import FixedDelay, Guarantee, Job, Schedule
from onthedot.model.task import (
    Bounds,
    Call,
    Command,
    Container,
    Http,
    Mount,
    Noop,
    Param,
    Sleep,
    Source,
    Step,
    Steps,
    Task,
)
from onthedot.schedules import schedule_id
from tests.schedules.strategies import schedules as any_schedules

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,12}", fullmatch=True) | st.sampled_from(
    ["null", "1", "on", "0x1"]
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | st.sampled_from(
    [
        "a\nb\n",
        "a\n\n",
        "\n",
        " x",
        "x ",
        "- a",
        "yes",
        "012",
        "1:30",
        "a: b",
        "#",
        "a #b",
        "|",
        "~",
        "one\n\ttwo",
        "\ufeff",
        "\x85",
    ]
)
lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(["1.10", "no", "", "'"])
some = texts.filter(bool)
lengths = st.timedeltas(timedelta(microseconds=1), timedelta(days=36_000))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
variables = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: not name.startswith("OTD_"))
envs = st.dictionaries(variables, lines, max_size=3)
argvs = st.lists(texts, min_size=1, max_size=4).filter(lambda words: bool(words[0])).map(tuple)
directories = st.sampled_from(["", "sub", "/srv/data", "a b", "."])


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    what: dict[str, Any] = {"argv": draw(argvs)} if draw(st.booleans()) else {"script": draw(some)}
    return {**what, "directory": draw(directories), "env": draw(envs)}


@st.composite
def steps(draw: st.DrawFn) -> Steps:
    named = draw(
        st.lists(st.from_regex(r"[A-Za-z][A-Za-z0-9 ]{0,9}", fullmatch=True), min_size=1, max_size=3, unique=True)
    )
    made = tuple(
        Step(
            name=name,
            **draw(programs()),
            when=draw(st.sampled_from(["success", "failure", "always"])),
            timeout=draw(st.none() | lengths),
            attempts=draw(st.integers(1, 100)),
            delay=draw(st.just(timedelta(0)) | st.just(timedelta(seconds=1)) | lengths),
        )
        for name in named
    )
    ref, key = draw(st.sampled_from(["", "main", "v1.10"])), draw(st.sampled_from(["", "${{ secrets.KEY }}"]))
    source = Source(git="https://example.org/x.git", ref=ref, key=key)
    artifacts = draw(st.lists(st.sampled_from(["dist/*.whl", "a b", "*"]), max_size=2).map(tuple))
    return Steps(steps=made, env=draw(envs), source=draw(st.none() | st.just(source)), artifacts=artifacts)


https = st.builds(
    Http,
    url=st.sampled_from(["https://example.org/hook", "http://example.org:81/a?b=c#d"]),
    method=st.sampled_from(["POST", "PUT", "DELETE"]),
    headers=st.dictionaries(st.sampled_from(["X-A", "X-B"]), st.text("ab 1:#", max_size=5)),
    body=values,
    expect=st.lists(st.integers(200, 599), max_size=3).map(tuple),
) | st.just(Http(url="https://example.org/hook"))
mounts = st.builds(
    Mount, source=st.sampled_from(["/srv/a", "/srv/b"]), target=st.sampled_from(["/a", "/b/c"]), writable=st.booleans()
)
containers = st.builds(
    Container,
    image=st.sampled_from(["alpine:3", "registry.example.org/a/b@sha256:00"]),
    argv=st.just(()) | argvs,
    env=envs,
    network=st.sampled_from(["none", "bridge", "own"]),
    mounts=st.lists(mounts, max_size=2, unique_by=lambda mount: mount.target).map(tuple),
    user=st.sampled_from(["", "1000", "ada:users"]),
    entrypoint=st.sampled_from(["", "sh"]),
)
tasks: st.SearchStrategy[Task] = st.one_of(
    st.builds(Call, handler=some),
    st.builds(Sleep, duration=st.just(timedelta(0)) | lengths),
    st.just(Noop()),
    programs().flatmap(
        lambda given: st.builds(Command, stdin=texts, **{key: st.just(one) for key, one in given.items()})
    ),
    steps(),
    https,
    containers,
)
_OF_KIND: dict[Any, st.SearchStrategy[Any]] = {
    "text": texts, "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    "whole": st.integers(), "yes_or_no": st.booleans(),
}  # fmt: skip


@st.composite
def params(draw: st.DrawFn) -> tuple[Param, ...]:
    made = []
    for name in draw(st.lists(st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), max_size=3, unique=True)):
        kind = draw(st.sampled_from(list(_OF_KIND)))
        choices = draw(st.lists(_OF_KIND[kind], max_size=2).map(tuple))
        default = draw(st.none() | (st.sampled_from(choices) if choices else _OF_KIND[kind]))
        required = default is None and draw(st.booleans())
        bounded = kind == "text" and default is None and not choices and draw(st.booleans())
        pattern = draw(st.sampled_from(("", "[a-z]+", r"v\d{1,3}", "a|b"))) if bounded else ""
        made.append(Param(name=name, kind=kind, default=default, choices=choices, required=required, pattern=pattern))
    return tuple(made)


policies: dict[str, st.SearchStrategy[Any]] = {
    "after": st.none()
    | st.builds(
        lambda parents, any_, on: otd.After(*parents, any=any_, on=on),
        st.lists(names, min_size=1, max_size=3, unique=True),
        st.booleans(),
        st.sampled_from(["success", "failure", "either"]),
    ),
    "catch_up": st.builds(
        otd.CatchUp, st.sampled_from(["none", "last", "all"]), limit=st.integers(1, 1000), window=lengths
    ),
    "overlap": st.none()
    | st.sampled_from([otd.Overlap("skip"), otd.Overlap("replace"), otd.Overlap("allow")])
    | st.builds(otd.Overlap, st.just("wait"), max_waiting=st.integers(0, 9))
    | st.builds(otd.Overlap, st.just("allow"), max_running=st.integers(1, 9)),
    "concurrency": st.none() | st.builds(otd.Limit, st.integers(1, 10**6), key=texts, name=texts),
    "rate": st.none()
    | st.builds(otd.Rate, st.integers(1, 10**6), lengths, burst=st.integers(1, 3), key=texts, name=texts),
    "retry": st.builds(
        otd.Retry,
        st.integers(1, 1000),
        backoff=st.sampled_from(["exponential", "linear", "fixed"]),
        delay=lengths,
        max_delay=lengths,
        jitter=st.booleans(),
        on_timeout=st.booleans(),
        when=st.sampled_from(["", "app.rules.patient"]),
        on=st.lists(
            st.sampled_from(["OSError", "app.Oops", "onthedot.ExitCode.75", "onthedot.ExitCode.075"]), max_size=3
        ),
    ),
    "timeout": st.none() | lengths,
    "max_recoveries": st.integers(0, 10**6),
    "namespace": names,
    "queue": names,
    "owner": lines.filter(str.isprintable),
    "priority": st.sampled_from(["low", "normal", "high", "critical"]),
    "labels": st.frozensets(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/=-]{0,9}", fullmatch=True), max_size=3),
    "share": texts,
    "bounds": st.builds(
        Bounds,
        cpu=st.none() | lengths,
        memory=st.none() | st.integers(1, 2**70),
        processes=st.none() | st.integers(1, 999),
        files=st.none() | st.integers(1, 999),
        file_bytes=st.none() | st.sampled_from([1 << 10, 5 << 20, 3 << 30, 1 << 60]),
        output=st.integers(1, 1 << 40),
    ),
}


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Draw a valid job. Each option keeps its default half of the time."""
    task = draw(tasks)
    given = {name: draw(policy) for name, policy in policies.items() if draw(st.booleans())}
    calls = isinstance(task, Call)
    programs_ = isinstance(task, Command | Steps)
    given["isolation"] = draw(
        st.sampled_from(["none", "process"] if calls else ["none", "user", "sandbox"] if programs_ else ["none"])
    )
    given["guarantee"] = draw(st.sampled_from(list(Guarantee) if calls else list(Guarantee)[:2]))
    if given["guarantee"] is Guarantee.EXACTLY_ONCE:
        given["isolation"] = "none"
    if given["guarantee"] is Guarantee.AT_MOST_ONCE:
        given["retry"] = replace(given.get("retry", otd.Retry()), attempts=1)
    scheduled: list[Schedule] = draw(st.lists(any_schedules, max_size=3, unique_by=schedule_id))
    if calls:
        given["args"] = draw(st.dictionaries(texts, values, max_size=3))
    else:
        scheduled = [replace(one, args={}) for one in scheduled]
        given["params"] = draw(params())
        given["args"] = {one.name: one.default for one in given["params"] if one.default is not None}
        given["args"] |= {
            one.name: draw(st.sampled_from(one.choices) if one.choices else _OF_KIND[one.kind])
            for one in given["params"]
            if one.required
        }
    if not any(isinstance(one, FixedDelay) for one in scheduled):
        given["on"] = draw(st.sampled_from(["any", "all"]))
    if given.get("on", "any") == "any":
        given["assignment"] = draw(st.sampled_from(["worker", "leader"]))
    job = Job(name=draw(names), task=task, schedules=tuple(scheduled), **given)
    try:
        check_job(job)
    except DefinitionError:
        assume(False)
    return job
