"""The output of programs is kept and can be read from any node: with the real guard, in a directory and in S3."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import shutil
import sys
import time
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import pytest

import onthedot as otd
from onthedot.clock import NEVER, SystemClock
from onthedot.model.task import Command, Step, Steps
from onthedot.output.locations import spool_folder
from onthedot.output.output_owner import find_owner
from onthedot.output.output_store import Name, OutputStore
from onthedot.output.run_output import AttemptOutput, read_output
from onthedot.output.spool import Spool
from onthedot.stores.connect import open_store
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.slow

SECRET = "hunter2-and-a-half"
TASK = Steps(
    steps=(
        Step(name="build", script="mkdir out; echo built > out/it.txt; echo builds; echo trouble >&2"),
        Step(name="test", script='echo "token $TOKEN"; printf %s "$TOKEN" | base64', env={"TOKEN": "${{ secrets.T }}"}),
    ),
    artifacts=("out/*.txt",),
)


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "directory":
        return str(tmp_path / "kept")
    server: S3Server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.url(server.fresh_prefix())


def node(tmp_path: Path, place: str, name: str) -> otd.Scheduler:
    settings = otd.Settings(output=place, spool=str(tmp_path / name), programs=True)
    return otd.Scheduler(f"sqlite:///{tmp_path / 'it.db'}", settings=settings)


def look_until_kept(folder: Path, url: str) -> None:
    """Wait until the spool of a node on this store is empty."""
    place = spool_folder(str(folder), url)
    assert place is not None
    assert place.is_dir()
    spool, give_up_at = Spool(place), time.monotonic() + 60
    while spool.waiting(1) or spool.left(1, before=NEVER):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


async def test_output_can_be_read_on_another_node_after_the_spool_is_gone(tmp_path, place, monkeypatch):
    monkeypatch.setenv("OTD_SECRET_T", SECRET)
    first = node(tmp_path, place, "first")
    first.add(otd.Job(name="it", task=TASK))
    async with first:
        run = await first.submit("it")
        await run.result(timeout="30s")
        await asyncio.to_thread(
            look_until_kept, tmp_path / "first", f"sqlite:///{tmp_path / 'it.db'}"
        )  # a stopping node waits only briefly for the upload, and the server may be slow
    shutil.rmtree(tmp_path / "first")
    async with node(tmp_path, place, "second") as second:
        [log] = await second.logs(run.id)
        [attempt] = await second.history(run.id)
    store = await open_store(f"sqlite:///{tmp_path / 'it.db'}", read_only=True)
    owner = await find_owner(store)
    await store.close()
    assert [line for line in log.text.splitlines() if not line.startswith("onthedot:")] == [
        "builds", "trouble", "token ***", "***",
    ]  # fmt: skip
    outputs = OutputStore(owner.location(place, None))
    name = Name(run.id, attempt.attempt, attempt.lease_id)
    index = await outputs.index(name)
    assert index is not None
    [artifact] = index.artifacts
    assert (artifact.name, await outputs.read(name, artifact)) == ("out/it.txt", b"built\n")


async def test_kept_output_does_not_contain_the_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("OTD_SECRET_T", SECRET)
    sched = node(tmp_path, str(tmp_path / "kept"), "spool")
    quoted = 'python3 -c \'import os, urllib.parse; print(urllib.parse.quote(os.environ["TOKEN"], safe=""))\''
    script = f'echo "$TOKEN"; printf %s "$TOKEN" | base64; {quoted}; printf %s "$TOKEN" | od -An -c | head -1'
    sched.add(otd.Job(name="it", task=Command(script=script, env={"TOKEN": "${{ secrets.T }}"})))
    async with sched:
        run = await sched.submit("it")
        await run.result(timeout="30s")
    forms = [SECRET.encode(), base64.b64encode(SECRET.encode())]
    files = await asyncio.to_thread(lambda: [path for path in tmp_path.rglob("*") if path.is_file()])
    assert files
    for path in files:
        content = path.read_bytes()
        assert not any(form in content for form in forms), path


async def test_live_lines_and_kept_records_have_the_same_content(tmp_path, monkeypatch):
    monkeypatch.setenv("OTD_SECRET_T", SECRET)
    sched = node(tmp_path, str(tmp_path / "kept"), "spool")
    go = tmp_path / "go"
    build = Step(name="build", script="echo builds; printf half")
    warn = Step(name="warn", script="echo trouble >&2")
    script = f'echo "token $TOKEN"; while [ ! -e {go} ]; do sleep 0.05; done'
    test = Step(name="test", script=script, env={"TOKEN": "${{ secrets.T }}"})
    sched.add(otd.Job(name="it", task=Steps(steps=(build, warn, test))))
    url = f"sqlite:///{tmp_path / 'it.db'}"

    async def read(outputs: OutputStore | None) -> list[AttemptOutput]:
        store = await open_store(url, read_only=True)
        try:
            return await read_output(store, outputs, run.id)
        finally:
            await store.close()

    async with sched:
        before = SystemClock().now()
        run = await sched.submit("it")
        async with asyncio.timeout(30):
            live_outputs = await read(None)
            while not live_outputs or "token" not in live_outputs[0].text:
                live_outputs, _ = await asyncio.gather(read(None), asyncio.sleep(0.05))
        await asyncio.to_thread(go.touch)
        await run.result(timeout="30s")
        await asyncio.to_thread(look_until_kept, tmp_path / "spool", url)
    store = await open_store(url, read_only=True)
    owner = await find_owner(store)
    await store.close()
    [live], [kept] = live_outputs, await read(OutputStore(owner.location(str(tmp_path / "kept"), None)))
    assert (live.kept, kept.kept) == (False, True)
    for output, end in ((live, "\n"), (kept, "")):  # a live line is complete, so it ends with a newline
        assert output.records is not None
        parts = groupby(output.records, lambda record: (record.step, record.stream))
        assert [(*of, "".join(record.text for record in some)) for of, some in parts] == [
            ("build", "otd", "onthedot: step 1 of 3: build\n"),
            ("build", "out", f"builds\nhalf{end}"),
            ("warn", "otd", "onthedot: step 2 of 3: warn\n"),
            ("warn", "err", "trouble\n"),
            ("test", "otd", "onthedot: step 3 of 3: test\n"),
            ("test", "out", "token ***\n"),
        ]
        instants = [record.at for record in output.records]
        assert before <= instants[0] <= instants[-1] <= SystemClock().now()
        assert instants == sorted(instants)


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────

CANARY = 'kAn4ry/"bird"&cage=+é'
PRINTS_CANARY = """
import base64, json, os, sys
from urllib.parse import quote
secret = os.environ["TOKEN"]
raw = secret.encode()
forms = [secret, base64.b64encode(raw).decode(), quote(secret, safe=""), json.dumps(secret)[1:-1], raw.hex()]
with open(os.environ["OTD_OUTPUT"], "w") as file:
    for number, form in enumerate(forms):
        print(f"form{number}=<{form}>", file=file)
    print("plain=kept", file=file)
    print(f"{raw.hex()}=name", file=file)
with open(os.environ["OTD_CHECKPOINT"], "w") as file:
    print(*forms, file=file)
os.mkdir("out")
for form in forms[1], forms[1] + ".txt", forms[4]:
    open(f"out/{form}", "w").close()
os.symlink("nowhere", f"out/link-{forms[4]}")
print(*forms)
print(*forms, file=sys.stderr)
"""


def parts_of_the_secret() -> list[bytes]:
    """Returns parts of the encoded secret. Each would reveal it."""
    raw = CANARY.encode()
    encoded = [base64.b64encode(raw)[4:12], quote(CANARY, safe="").encode()[:8], raw.hex().encode()[:12]]
    return [raw[:6], raw[-8:], *encoded]


def content_of(*folders: Path) -> bytes:
    """Returns the content and the names of all files."""
    found = b""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        data = path.read_bytes()
        found += gzip.decompress(data) if path.suffix == ".gz" else data
        found += str(path).encode()
    return found


@pytest.mark.parametrize("ends", ["exit 0", "exit 3"])
async def test_no_persisted_byte_of_a_run_holds_a_secret(tmp_path, monkeypatch, ends: str):
    monkeypatch.setenv("OTD_SECRET_T", CANARY)
    env = {"TOKEN": "${{ secrets.T }}"}
    steps = (
        Step(name="sing", argv=(sys.executable, "-c", PRINTS_CANARY), env=env),
        Step(name="echo", script=f'echo "later: $OTD_OUTPUT_SING_PLAIN $OTD_OUTPUT_SING_FORM0"; {ends}', env=env),
    )
    sched = node(tmp_path, str(tmp_path / "kept"), "spool")
    sched.add(otd.Job(name="it", task=Steps(steps=steps, artifacts=("out/**",))))
    async with sched:
        run = await sched.submit("it")
        with suppress(otd.RunFailed):
            await run.result(timeout="30s")
        record = await sched.get_run(run)
        [log] = await sched.logs(run)
        [attempt] = await sched.history(run)
        await asyncio.to_thread(look_until_kept, tmp_path / "spool", f"sqlite:///{tmp_path / 'it.db'}")
    assert record is not None
    if ends == "exit 0":
        assert json.loads(record.result or "")["sing"] == {"plain": "kept", **{f"form{n}": "<***>" for n in range(5)}}
    assert "later: kept <***>" in log.text
    assert "onthedot: a secret was taken out of what the step hands on" in log.text
    store = await open_store(f"sqlite:///{tmp_path / 'it.db'}", read_only=True)
    outputs = OutputStore((await find_owner(store)).location(str(tmp_path / "kept"), None))
    await store.close()
    index = await outputs.index(Name(run.id, attempt.attempt, attempt.lease_id))
    assert index is not None
    assert sorted(one.name for one in index.artifacts) == ["out/***", "out/*** (2)", "out/***.txt"]
    shutil.rmtree(tmp_path / "spool" / "work", ignore_errors=True)
    for folder in (tmp_path / "spool").glob("*/work"):  # the program's own files, which stay on this machine
        shutil.rmtree(folder)
    everything = content_of(tmp_path) + repr((record, log, attempt)).encode()
    assert b"***" in everything
    assert [part for part in parts_of_the_secret() if part in everything] == []


async def test_no_checkpoint_holds_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("OTD_SECRET_T", CANARY)
    save = 'cat $OTD_CHECKPOINT 2>/dev/null || true; printf "at 7, %s" "$TOKEN" > $OTD_CHECKPOINT; exit 3'
    sched = node(tmp_path, str(tmp_path / "kept"), "spool")
    task = Command(script=save, env={"TOKEN": "${{ secrets.T }}"})
    sched.add(otd.Job(name="it", task=task, retry=otd.Retry(2, delay="1ms")))
    async with sched:
        run = await sched.submit("it")
        with suppress(otd.RunFailed):
            await run.result(timeout="30s")
        saved = await sched._running().on_store(lambda store: store.queries.get_checkpoint(run.id))
        text = "".join(log.text for log in await sched.logs(run))
    assert saved is not None
    assert "at 7, ***" in saved.value
    assert "at 7, ***" in text  # the second attempt gets the stored checkpoint
    assert "onthedot: a secret was taken out of what the program has saved" in text
    assert [part for part in parts_of_the_secret() if part in (saved.value + text).encode()] == []
