"""The Redis scripts: their headers are right, they lose no value, and none keeps the server busy for long."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, submit_trigger
from onthedot.stores.redis import RedisStore
from onthedot.stores.redis.scripts import names, script
from onthedot.stores.values import Node, ReserveRequest
from tests.servers.valkey import ValkeyServer

LIB = (
    "lines",
    "runs",
    "gates",
    "finish",
    "windows",
    "nodes",
    "idle_places",
    "rates",
    "leases",
    "gate_checks",
    "rows",
    "entries",
    "filters",
    "queues",
    "sweeps",
    "retention",
)


def read(name: str) -> str:
    return files("onthedot.stores.redis.scripts").joinpath(f"{name}.lua").read_text()


@pytest.mark.parametrize("name", names())
def test_every_script_has_a_header_and_uses_only_existing_parts(name: str):
    text = read(name)
    head = text[: re.search(r"^(?!--)", text, re.MULTILINE).start()]  # type: ignore[union-attr]
    assert head.startswith("-- ")
    [uses] = re.findall(r"^-- Uses:(.*)$", head, re.MULTILINE)
    assert set(uses.split()) <= set(LIB)
    for word in ("ARGV", "returns"):
        wanted = {"ARGV": r"\brequest\.(?!now|me)", "returns": r"^return (?!nil)\S"}[word]
        assert word in head or not re.search(wanted, text[len(head) :], re.MULTILINE), (
            f"the header does not mention {word}"
        )


def test_the_server_loads_every_script(valkey: ValkeyServer):
    with valkey.client() as db:
        assert [db.script_load(script(name).text) for name in names()] == [script(name).sha for name in names()]


@pytest.mark.parametrize("name", ["base", *LIB])
def test_no_instant_is_converted_to_text_with_lost_digits(name: str):
    """`..` and tostring keep 14 digits, but an instant has 16."""
    instants = r"\b(now|due|ended|slot|ready|expires|until_|watermark|first|last)\b"
    for line in read(f"lib/{name}").splitlines():
        code = line.partition("--")[0]
        for joined in re.findall(r"\.\. ([\w.]+)(?!\()", code):
            assert not re.search(instants + "$", joined), line


def test_packing_a_run_leaves_no_field_out():
    """A field outside of the fixed order is packed only if `is_rare_…` names it."""
    base = read("lib/base")
    values = {
        name: set(text.split()) for name, text in re.findall(r"local (\w+) = set_of_names\(\[\[(.*?)\]\]\)", base, re.S)
    }
    rare = {
        name: set(re.findall(r"one\.(\w+)", text))
        for name, text in re.findall(r"function is_rare_(\w+)\(one\)(.*?)\nend", base, re.S)
    }
    everything = "\n".join(read(name) for name in [*names(), *(f"lib/{part}" for part in LIB)])
    written = set(re.findall(r"\b(?:run|heir|holder)\.(\w+)(?:, [\w.]+)* = ", everything))
    written |= {
        name
        for line in re.findall(r"^ *((?:run\.\w+, )+run\.\w+) = ", everything, re.M)
        for name in re.findall(r"run\.(\w+)", line)
    }
    assert len(written) > 20
    assert written <= values["RUN"] | rare["run"]
    [finished] = re.findall(r"local finished = \{(.*?)\}", everything, re.S)
    ended = set(re.findall(r"(\w+) = ", finished))
    ended |= set(re.findall(r"\bfinished\.(\w+)(?=[^\n]* = last)", everything))
    assert {"error", "result", "tries"} < ended
    assert ended <= values["FINISHED"] | rare["finished"]
    assert not values["RUN"] & rare["run"]
    assert not values["FINISHED"] & rare["finished"]


async def test_a_reserve_among_many_runs_takes_milliseconds(store: RedisStore, valkey: ValkeyServer):
    record = (await store.put_job(Job(name="job", task=Call(handler="work")))).record
    ids, now = SeededIds(1), await store.tell_time()
    for _ in range(20):
        runs = [NewRun(record.id, submit_trigger(ids.token()), now - SECOND) for _ in range(500)]
        await store.submit(runs)
    await store.register(Node(id="node", incarnation="one"), ttl=1_000 * SECOND)
    with valkey.client() as db:
        db.config_resetstat()
        for _ in range(5):
            got = await store.reserve(ReserveRequest("one", ids.leases(200), 200, tasks=frozenset({"call:work"})))
            assert len(got.armed) == 200
        commands = db.info("commandstats")
    looked = sum(commands[name]["calls"] for name in commands if name.startswith("cmdstat_z"))
    assert looked <= 5 * 30  # a limited number of commands, each for one batch, however many runs wait
