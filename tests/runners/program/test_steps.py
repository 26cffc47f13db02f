"""Steps run in order and resume where they stopped, on the same machine or another one; real processes."""

from __future__ import annotations

import asyncio
import subprocess
from base64 import b64encode
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.model.addresses import Address
from onthedot.model.job import Job
from onthedot.model.run import NewRun
from onthedot.model.task import Source, Step, Steps
from onthedot.runners.guard.protocol import Program, ProgramEnd
from onthedot.runners.program import source as source_module
from tests.runners.program.plain_guard import guard
from tests.runners.program.test_commands import run_it, scheduler, wait_for_output

pytestmark = pytest.mark.slow

__all__ = ["guard"]  # a fixture


def step(name: str, script: str, **more: Any) -> Step:
    return Step(name=name, script=script, **more)


def lines(log: str) -> list[str]:
    """Returns what the programs printed, without our own lines."""
    return [line for line in log.splitlines() if not line.startswith("onthedot:")]


async def test_steps_run_in_order_in_one_workspace(tmp_path, guard):
    steps = (step("one", "echo 1 > file"), step("two", "cat file; echo 2 >> file"), step("three", "cat file"))
    record, log = await run_it(scheduler(tmp_path, Steps(steps=steps)))
    assert record.state == "succeeded"
    assert lines(log) == ["1", "1", "2"]
    assert "onthedot: step 2 of 3: two" in log
    assert record.progress == (3, 3)


async def test_when_decides_if_a_step_runs(tmp_path, guard):
    steps = (
        step("tell", "echo never", when="failure"), step("build", "exit 4"), step("test", "echo never"),
        step("mourn", "echo mourns", when="failure"), step("clean", "echo cleans; exit 9", when="always"),
    )  # fmt: skip
    record, log = await run_it(scheduler(tmp_path, Steps(steps=steps)))
    assert lines(log) == ["mourns", "cleans"]
    # The first failure is the error of the run.
    assert (record.state, record.error) == ("dead", "step 'build': exit code 4")


async def test_a_step_has_its_own_attempts_and_time_out(tmp_path, guard):
    flaky = step("flaky", "echo x >> tries; test $(wc -l < tries) = 3", attempts=3, delay=timedelta(milliseconds=1))
    slow = step("slow", "sleep 60", timeout=timedelta(milliseconds=200))
    record, log = await run_it(scheduler(tmp_path, Steps(steps=(flaky, slow))))
    assert log.count("tried again") == 2
    assert record.error == "step 'slow': took longer than its time-out"
    assert record.attempts == 1


async def test_steps_pass_values_to_later_steps(tmp_path, guard):
    steps = (
        step("Set up Go", "echo version=1.22 > $OTD_OUTPUT; echo 'path=a b' >> $OTD_OUTPUT"),
        step("use", 'echo "$OTD_OUTPUT_SET_UP_GO_VERSION, $OTD_OUTPUT_SET_UP_GO_PATH"; cat $OTD_OUTPUT || true'),
    )
    sched = scheduler(tmp_path, Steps(steps=steps, env={"ALL": "yes"}))
    async with sched:
        run = await sched.submit("it")
        assert await run.result(timeout="20s") == {"Set up Go": {"version": "1.22", "path": "a b"}}
        assert "1.22, a b" in (await sched.logs(run))[0].text


async def test_a_retry_resumes_at_the_failed_step(tmp_path, guard):
    steps = (
        step("load", "echo loads; echo n=7 > $OTD_OUTPUT"), step("work", "echo works; test $OTD_ATTEMPT = 2"),
        step("end", "echo ends with $OTD_OUTPUT_LOAD_N", when="always"),
    )  # fmt: skip
    record, log = await run_it(scheduler(tmp_path, Steps(steps=steps), retry=otd.Retry(2, delay="1ms")))
    assert record.state == "succeeded"
    assert lines(log) == ["loads", "works", "ends with 7", "works", "ends with 7"]
    assert "onthedot: resumed at step 2 of 3, 'work'" in log


@pytest.mark.parametrize("same_machine", [True, False])
async def test_another_worker_resumes_after_the_last_finished_step(tmp_path, guard, same_machine):
    """The first worker is stopped in the third of five steps. The second one has the same spool folder, or another
    one."""
    journal, go_on = tmp_path / "journal", tmp_path / "go on"
    see = "test -f made && echo found || echo missed; touch made"
    steps = [step(f"s{n}", f"echo {n} >> {journal}; {see}") for n in range(1, 6)]
    steps[2] = step("s3", f"test -f '{go_on}' || {{ echo waits; sleep 60; }}; echo 3 >> {journal}; {see}")
    url, job = f"sqlite:///{tmp_path / 'it.db'}", Job(name="it", task=Steps(steps=tuple(steps)))
    first = otd.Scheduler(url, settings=otd.Settings(spool=str(tmp_path / "a"), node_id="first", grace=1))
    other = "a" if same_machine else "b"
    second = otd.Scheduler(url, settings=otd.Settings(spool=str(tmp_path / other), node_id="second"))
    first.add(job)
    second.add(job)
    async with first:
        run = await first.submit("it")
        await wait_for_output(first, run.id, "waits")
    go_on.touch()
    async with second:
        await second.result(run, timeout="20s")
        history = await second.history(run)
        log = (await second.logs(run))[-1].text
    assert journal.read_text().split() == ["1", "2", "3", "4", "5"]
    assert [(one.node, one.outcome) for one in history] == [("first", "lost"), ("second", "succeeded")]
    assert "onthedot: resumed at step 3 of 5, 's3'" in log
    assert ("its workspace is not on this machine" in log) is not same_machine
    assert lines(log) == ["found" if same_machine else "missed", "found", "found"]


async def test_a_lost_lease_ends_the_attempt(tmp_path, guard):
    """Another node has the run then, so no further step begins."""
    sched = scheduler(tmp_path, Steps(steps=(step("one", "echo 1"), step("two", "echo never"))))
    async with sched:

        async def refuse(saves: Any, **_: Any) -> list[bool]:
            return [False for _ in saves]

        async def break_it(store: Any) -> None:
            store.checkpoint = refuse

        await sched._running().on_store(break_it)
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed, match="lost"):
            await run.result(timeout="20s")
    # The first attempt and three recoveries, which also lose their lease.
    assert [program.label for program in guard.programs] == ["one"] * 4


async def test_after_an_edit_a_retry_begins_at_the_first_changed_step(tmp_path, guard):
    sched = scheduler(tmp_path, Steps(steps=(step("a", "echo a"), step("b", "exit 1"), step("c", "echo c"))))
    async with sched:
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed):
            await run.result(timeout="20s")
        await sched.put(
            Job(name="it", task=Steps(steps=(step("a", "echo a"), step("x", "echo x"), step("c", "echo c"))))
        )
        again = await sched.retry_run(run)
        await again.result(timeout="20s")
        assert lines((await sched.logs(again))[0].text) == ["x", "c"]


async def test_a_dead_run_can_be_retried_from_its_failed_step_in_its_workspace(tmp_path, guard):
    steps = (
        step("build", "echo builds; echo v=7 > $OTD_OUTPUT; echo made > made"),
        step("test", "cat made; echo tests $OTD_OUTPUT_BUILD_V; test -f /nonexistent || exit $((2 - $OTD_RUN_ID))"),
    )
    sched = scheduler(tmp_path, Steps(steps=steps))
    async with sched:
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed, match="exit code 1"):
            await run.result(timeout="20s")
        again = await sched.retry_run(run)
        await again.result(timeout="20s")
        assert lines((await sched.logs(again))[0].text) == ["made", "tests 7"]
        record = await sched.get_run(again)
        assert record is not None
        assert record.trigger.startswith(f"rerun:{run.id}:1:")
        whole = await sched.retry_run(again, from_step="build")
        with pytest.raises(otd.RunFailed):  # it fails, because its run id is 3
            await whole.result(timeout="20s")
        assert lines((await sched.logs(whole))[0].text)[0] == "builds"


async def test_a_run_never_takes_over_the_workspace_of_another_job(tmp_path, guard):
    sched = scheduler(tmp_path, Steps(steps=(step("keep", "echo mine > kept"), step("fail", "exit 1"))))
    async with sched:
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed):
            await run.result(timeout="20s")
        stored = await sched.put(Job(name="other", task=Steps(steps=(step("keep", "ls"), step("fail", "ls")))))
        # Earlier versions stored such runs, and some may still wait.
        new = NewRun(stored.record.id, f"rerun:{run.id}:1:t", SystemClock().now())
        [made] = await sched._running().on_store(lambda store: store.submit([new]))
        await sched.result(made, timeout="20s")
        [log] = await sched.logs(made)
        assert lines(log.text) == []
        assert "step 1 of 2: keep" in log.text
        assert "continues run" not in log.text


async def test_an_impossible_retry_is_refused(tmp_path, guard):
    sched = scheduler(tmp_path, Steps(steps=(step("a", "exit 1"), step("b", "true"))))

    @sched.job
    async def handler() -> None: ...

    async with sched:
        later = await sched.submit("it", delay="1h")
        with pytest.raises(otd.StateError, match="expected one that has ended, it is scheduled"):
            await sched.retry_run(later)
        with pytest.raises(otd.UnknownRun):
            await sched.retry_run(99)
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed):
            await run.result(timeout="20s")
        with pytest.raises(otd.DefinitionError, match="has not come to"):
            await sched.retry_run(run, from_step="b")
        with pytest.raises(otd.DefinitionError, match="expected a step of job 'it', got 'c'"):
            await sched.retry_run(run, from_step="c")
        done = await sched.submit("handler")
        await done.result(timeout="20s")
        with pytest.raises(otd.DefinitionError, match="expected one of a command or of steps"):
            await sched.retry_run(done)


# ── source ───────────────────────────────────────────────────────────────────────────────────────────────────


def repository(folder: Path) -> Path:
    """A git repository with two commits. The first one has the tag v1."""
    folder.mkdir()

    def git(*words: str) -> None:
        names = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-b", "main")
    for version in ("1", "2"):
        (folder / "version").write_text(version + "\n")
        git("add", ".")
        git("commit", "-m", version)
        if version == "1":
            git("tag", "v1")
    return folder


@pytest.mark.parametrize(("ref", "version"), [("", "2"), ("v1", "1"), ("main", "2")])
async def test_the_source_is_checked_out_first(tmp_path, guard, ref, version):
    source = Source(git=f"file://{repository(tmp_path / 'repo')}", ref=ref)
    record, log = await run_it(scheduler(tmp_path, Steps(steps=(step("see", "cat version"),), source=source)))
    assert record.state == "succeeded", record.error
    assert lines(log) == [version]


async def test_a_source_that_cannot_be_fetched_fails_the_attempt(tmp_path, guard):
    source = Source(git=f"file://{tmp_path / 'nothing'}")
    record, log = await run_it(scheduler(tmp_path, Steps(steps=(step("see", "echo never"),), source=source)))
    assert record.error == "step 'source': exit code 128"
    assert "never" not in log


@pytest.fixture
def fake_dns(monkeypatch):
    """Makes every name resolve to the given addresses. Returns the list of lookups."""

    def resolve_to(*addresses: str) -> list[str]:
        asked: list[str] = []

        async def resolve(host: str, port: int) -> list[Address]:
            asked.append(f"{host}:{port}")
            return [ip_address(address) for address in addresses]

        monkeypatch.setattr(source_module, "resolve", resolve)
        return asked

    return resolve_to


@pytest.mark.parametrize(
    ("isolation", "offered", "level"),
    [
        ("sandbox", "sandbox", "sandbox"),
        ("user", "sandbox", "sandbox"),
        ("user", "user", "user"),
        ("none", "user", "none"),
    ],
)
async def test_git_has_the_isolation_of_its_job_and_the_network(tmp_path, guard, fake_dns, isolation, offered, level):
    fake_dns("93.184.216.34")
    guard.levels = frozenset({"none", "user", offered})
    guard.instead = lambda _: ProgramEnd("exited", code=0)
    task = Steps(steps=(step("see", "true"),), source=Source(git="https://example.org/shop.git"))
    await run_it(scheduler(tmp_path, task, isolation=isolation))
    assert [program.level for program in guard.programs] == [level, level, level, isolation]
    assert [program.network for program in guard.programs] == [True, True, True, False]


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x", "ssh://git@10.0.0.1/x", "git@internal.example.org:x", "https://[::1]/x",
        "ssh://git@internal.example.org:2222/x",
    ],
)  # fmt: skip
async def test_git_is_refused_at_addresses_that_http_jobs_may_not_use(tmp_path, guard, fake_dns, url):
    fake_dns("93.184.216.34", "192.168.1.1")
    task = Steps(steps=(step("see", "true"),), source=Source(git=url))
    record, _ = await run_it(scheduler(tmp_path, task))
    assert record.error.startswith("step 'source': refused: ")
    assert "expected a public address" in record.error
    assert guard.programs == []


async def listening() -> tuple[asyncio.Server, int, asyncio.Future[bytes]]:
    """A server on loopback. Returns it, its port, and a future of the first bytes that it receives."""
    first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(1000)
        if not first.done():
            first.set_result(data)
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1], first


@pytest.mark.parametrize(("scheme", "greeting"), [("https", b"\x16\x03"), ("ssh", b"SSH-2.0-")])
async def test_git_connects_to_the_address_that_was_checked(tmp_path, guard, fake_dns, scheme, greeting):
    """The name does not exist, so git must have the address from us."""
    server, port, first = await listening()
    asked = fake_dns("127.0.0.1")
    task = Steps(steps=(step("see", "true"),), source=Source(git=f"{scheme}://git@shop.example.invalid:{port}/x"))
    async with server:
        record, _ = await run_it(scheduler(tmp_path, task, settings={"http_allow": ("127.0.0.0/8",)}))
        assert (await asyncio.wait_for(first, 20)).startswith(greeting)
    assert record.error == "step 'source': exit code 128"
    assert asked == [f"shop.example.invalid:{port}"]


async def test_ssh_uses_only_the_key_that_the_job_names(tmp_path, guard, fake_dns, monkeypatch):
    fake_dns("93.184.216.34")
    seen: list[tuple[str, dict[str, str]]] = []

    def note_program(program: Program) -> ProgramEnd:
        folder = Path(program.workspace, ".otd", "git")
        found = {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}
        seen.append((program.env.get("GIT_SSH_COMMAND", ""), found))
        return ProgramEnd("exited", code=0)

    guard.instead = note_program
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text("example.org ssh-ed25519 AAAA\n")
    monkeypatch.setenv("OTD_SECRET_DEPLOY", "-----BEGIN KEY-----\nabcd\n-----END KEY-----")
    for key in ("", "${{ secrets.DEPLOY }}"):
        source = Source(git="git@example.org:shop.git", key=key)
        await run_it(scheduler(tmp_path, Steps(steps=(step("see", "true"),), source=source)))
    without, given = seen[0], seen[4]
    assert "-oIdentityFile=none" in without[0]
    assert "-oPubkeyAuthentication=no" in without[0]
    assert "-oIdentityAgent=none" in without[0]
    assert without[1] == {"known_hosts": "example.org ssh-ed25519 AAAA\n"}
    assert "-oPubkeyAuthentication=yes" in given[0]
    assert given[1]["key"] == "-----BEGIN KEY-----\nabcd\n-----END KEY-----\n"
    assert seen[3] == seen[7] == ("", {})  # removed before the first step


async def test_a_token_appears_in_no_argument_and_in_no_step(tmp_path, guard, fake_dns, monkeypatch):
    fake_dns("93.184.216.34")
    guard.instead = lambda _: ProgramEnd("exited", code=0)
    monkeypatch.setenv("OTD_SECRET_DEPLOY", "tok-4711")
    source = Source(git="https://example.org/shop.git", key="${{ secrets.DEPLOY }}")
    await run_it(scheduler(tmp_path, Steps(steps=(step("see", "true"),), source=source)))
    header = b64encode(b"x-access-token:tok-4711").decode()
    *gits, steps = guard.programs
    assert all(program.env["GIT_CONFIG_VALUE_0"] == f"Authorization: Basic {header}" for program in gits)
    assert not any(word.count(header) or "tok-4711" in word for program in gits for word in program.argv)
    assert "GIT_CONFIG_VALUE_0" not in steps.env
    assert "tok-4711" in gits[0].secrets


@pytest.mark.parametrize("url", ["ext::sh -c touch%20PWNED", "git://localhost/x", "--upload-pack=touch PWNED"])
async def test_a_source_with_an_unsafe_url_is_refused(tmp_path, guard, url):
    """Also if the stored definition was not checked."""
    from onthedot.runners.program.source import checkout

    source = Source(git=url)
    assert checkout(source)[1][-3] == "--"
    task = Steps(steps=(step("see", "echo never"),), source=source)
    sched = scheduler(tmp_path, Steps(steps=task.steps))
    object.__setattr__(sched.jobs["it"], "task", task)  # without the checks of a definition
    record, _ = await run_it(sched)
    assert record.error.startswith("step 'source': refused: expected a URL by https, ssh or file")
    assert guard.programs == []
    assert list(tmp_path.rglob("PWNED")) == []


async def test_an_attempt_checks_out_again_after_an_incomplete_checkout(tmp_path, guard):
    source = Source(git=f"file://{repository(tmp_path / 'repo')}")
    ends = iter([ProgramEnd("exited", code=0), ProgramEnd("exited", code=1)])
    guard.instead = lambda _: next(ends, None)
    task = Steps(steps=(step("see", "cat version"),), source=source)
    record, log = await run_it(scheduler(tmp_path, task, retry=otd.Retry(2, delay="1ms")))
    assert record.state == "succeeded"
    assert lines(log) == ["2"]


async def test_old_workspaces_are_removed(tmp_path, guard):
    from onthedot.runners.program.workspace import sweep

    await run_it(scheduler(tmp_path, Steps(steps=(step("a", "mkdir locked; touch locked/x; chmod 0 locked; exit 1"),))))
    [place] = (tmp_path / "spool").glob("1-*")
    stamp = place.stat().st_mtime_ns // 1_000
    (tmp_path / "spool" / "something else").mkdir()
    assert sweep(tmp_path / "spool", now=stamp + SECOND, keep=2 * SECOND, in_use=()) == 0
    assert sweep(tmp_path / "spool", now=stamp + 3 * SECOND, keep=2 * SECOND, in_use=[place.name]) == 0
    assert sweep(tmp_path / "spool", now=stamp + 3 * SECOND, keep=2 * SECOND, in_use=()) == 1
    assert {path.name for path in (tmp_path / "spool").iterdir()} == {"something else", "memory"}


async def test_outputs_that_are_too_large_fail_the_step(tmp_path, guard):
    much = (
        "i=0; while [ $i -lt 60 ]; do echo k$i=$(head -c 3000 /dev/zero | tr '\\0' x) >> $OTD_OUTPUT; i=$((i+1)); done"
    )
    record, _ = await run_it(scheduler(tmp_path, Steps(steps=(step("a", much), step("b", "echo never")))))
    assert "step 'a': its outputs are too large" in record.error
