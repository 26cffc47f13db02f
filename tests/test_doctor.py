"""`onthedot doctor` reports the state of the store, of the output store and of the machine, with a remedy."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path
from zoneinfo import ZoneInfoNotFoundError

import pytest

import onthedot as otd
from onthedot import doctor
from onthedot.clock import SECOND, SystemClock
from onthedot.doctor import Finding, Wants, _clock, _connection, check_machine, check_output, check_store, wants_of
from onthedot.ids import SeededIds
from onthedot.model.job import Job
from onthedot.model.task import Command, Container, Source, Step, Steps
from onthedot.runners import probes
from onthedot.runners.probes import Cgroups, Probe
from onthedot.runners.program.workspace import spool_of
from onthedot.stores.memory import MemoryStore
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.redis import RedisStore
from onthedot.stores.sqlite import SqliteStore


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


async def findings(url: str, *, wanted: bool = True, settings: otd.Settings | None = None) -> dict[str, Finding]:
    return {finding.name: finding for finding in await check_store(url, settings or otd.Settings(), wanted=wanted)}


async def test_a_sqlite_store_is_ok(tmp_path: Path):
    await (await SqliteStore.open(tmp_path / "otd.db")).close()
    found = await findings(f"sqlite:///{tmp_path}/otd.db")
    assert "SQLite 3." in found["store"].found
    assert found["store"].found.endswith("tables up to date")
    assert found["clock"].found == "this machine's own is the store's"
    assert {finding.state for finding in found.values()} == {"ok"}


async def test_a_missing_file_is_reported_and_not_created(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/none.db"
    assert (await findings(url))["store"].is_fault
    found = (await findings(url, wanted=False))["store"]
    assert (found.state, found.is_fault) == ("missing", False)
    assert is_empty(tmp_path)


async def test_a_file_that_is_no_store_is_broken(tmp_path: Path):
    (tmp_path / "otd.db").write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    found = (await findings(f"sqlite:///{tmp_path}/otd.db"))["store"]
    assert (found.state, found.is_fault) == ("broken", True)
    assert "otd.db" in found.found


async def test_a_postgresql_store_is_described(postgres_url: str):
    broken = (await findings(postgres_url))["store"]
    assert "expected the tables of onthedot, found none" in broken.found
    await (await PostgresStore.open(postgres_url)).close()
    found = await findings(f"{postgres_url}?connections=7")
    assert ": PostgreSQL 1" in found["store"].found
    assert "fsync" in found["kept"].found
    assert "7 connections" in found["pools"].found
    assert found["clock"].state == "ok"
    assert "the store's (±" in found["clock"].found


async def test_a_redis_store_is_described(valkey_url: str):
    await (await RedisStore.open(valkey_url)).close()
    found = await findings(valkey_url)
    assert ": Valkey " in found["store"].found
    assert "a crash of the server's machine may lose" in found["kept"].found
    assert found["clock"].state == "ok"


@pytest.mark.parametrize(
    ("url", "state", "words"),
    [
        ("postgresql://db/shop?sslmode=disable", "missing", "not encrypted"),
        ("postgresql://db/shop?sslmode=require", "missing", "encrypted, but another server can pretend to be it"),
        ("postgresql://db/shop", "ok", "encrypted, and the server's certificate is checked"),
        ("redis://db/0?tls=off", "missing", "not encrypted"),
        ("rediss://db/0", "ok", "encrypted"),
    ],
)
def test_an_unencrypted_connection_is_reported(url: str, state: str, words: str):
    [found] = _connection(url)
    assert (found.name, found.state, found.is_fault) == ("connection", state, False)
    assert found.found.startswith(words)
    assert bool(found.remedy) == (state != "ok")
    assert (
        _connection("postgresql://localhost/shop")
        == _connection("redis://127.0.0.1/0")
        == _connection("sqlite:///jobs.db")
        == []
    )


async def test_a_missing_server_is_reported():
    found = (await findings("postgresql://127.0.0.1:1/none?timeout=1"))["store"]
    assert (found.state, found.is_fault) == ("broken", True)
    assert "127.0.0.1:1" in found.found


async def test_no_finding_contains_a_password():
    found = (await findings("postgresql://ann:hidden@127.0.0.1:1/none?timeout=1"))["store"]
    assert "hidden" not in str(found)


async def test_an_invalid_url_is_refused():
    with pytest.raises(otd.DefinitionError, match="store URL"):
        await findings("mysql://x")


async def test_the_memory_store_is_ok():
    assert (await findings("memory:"))["store"].state == "ok"


async def test_pools_are_those_of_the_settings(tmp_path: Path):
    await (await SqliteStore.open(tmp_path / "otd.db")).close()
    settings = otd.Settings(seats=9, processes=3, roles=("worker",))
    found = (await findings(f"sqlite:///{tmp_path}/otd.db", settings=settings))["pools"]
    assert found.found == "9 seats and 3 processes execute"


async def test_pools_of_a_planner_and_of_the_api_are_listed(postgres_url: str):
    await (await PostgresStore.open(postgres_url)).close()
    settings = otd.Settings(roles=("planner",), batch=7, api_rate=2.5, api_burst=9, api_followers=8, api_connections=3)
    found = (await findings(f"{postgres_url}?connections=7", settings=settings))["pools"]
    assert found.found == (
        "7 runs to a write are planned, 30 s ahead; the API takes 2.5 requests a second of a key, 9 at once, and "
        "8 followers; 7 connections to the store for each event loop; 3 for the API's"
    )


@pytest.mark.parametrize(
    ("ahead", "state", "words"), [(0, "ok", "0.00"), (90 * SECOND, "broken", "90.0"), (-90 * SECOND, "broken", "90.0")]
)
async def test_a_wrong_clock_is_reported(ahead: int, state: str, words: str):
    class Standing(SystemClock):
        """A clock that stands still, so that a slow machine does not look like a wrong clock."""

        def now(self) -> int:
            return 1_800_000_000 * SECOND

    class Elsewhere(MemoryStore):
        @property
        def clock(self) -> None:  # type: ignore[override]
            """None: the store's clock is on another machine."""

        async def tell_time(self) -> int:
            return Standing().now() + ahead

    store = Elsewhere()
    found = await _clock(store, Standing())
    assert (found.state, words in found.found or ahead != 0) == (state, True)
    if ahead:
        assert ("behind the store's" if ahead > 0 else "ahead of the store's") in found.found


async def test_a_directory_for_output_is_ok(tmp_path: Path):
    for place in (str(tmp_path), f"file://{tmp_path}"):
        found = await check_output(place, SeededIds(1))
        assert (found.state, found.found) == ("ok", f"{place}: written and read back")
    assert is_empty(tmp_path)


async def test_a_missing_directory_is_reported_and_not_created(tmp_path: Path):
    found = await check_output(str(tmp_path / "none"), SeededIds(1))
    assert (found.state, found.is_fault) == ("broken", True)
    assert "expected a directory, found none" in found.found
    assert is_empty(tmp_path)


async def test_an_unreachable_bucket_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "PATIENCE", 2)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "ann",
        "AWS_SECRET_ACCESS_KEY": "hidden",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    found = await check_output("s3://bucket/logs", SeededIds(1))
    assert found.is_fault
    assert "hidden" not in str(found)


async def test_an_invalid_output_store_is_reported():
    assert (await check_output("ftp://x/y", SeededIds(1))).is_fault


@pytest.fixture
def nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bubblewrap", "git", "user_level", "container_engine"):
        monkeypatch.setattr(probes, name, lambda: Probe("missing", "not there"))
    monkeypatch.setattr(probes, "cgroups", lambda: Cgroups(0))


def by_name(wants: Wants) -> dict[str, Finding]:
    return {finding.name: finding for finding in check_machine(otd.Settings(), wants)}


def test_a_missing_feature_is_reported_with_its_cost_and_a_remedy(nothing_works: None):
    found = by_name(Wants())
    for name in ("bubblewrap", "user", "cgroups", "containers", "git"):
        assert found[name].state == "missing"
        assert found[name].costs
        assert found[name].remedy
        assert not found[name].is_fault


def test_a_missing_feature_is_a_fault_if_a_job_needs_it(nothing_works: None):
    found = by_name(Wants(sandbox=True, user=True, containers=True, git=True))
    faults = {name for name, finding in found.items() if finding.is_fault}
    assert faults == {"bubblewrap", "user", "containers", "git"}


def test_a_working_feature_has_no_remedy(monkeypatch: pytest.MonkeyPatch, nothing_works: None):
    monkeypatch.setattr(probes, "git", lambda: Probe("ok", "git version 2"))
    assert by_name(Wants(git=True))["git"] == Finding("git", "ok", "git version 2", wanted=True)


def test_the_needs_of_a_configuration_come_from_its_jobs():
    jobs = [
        Job(name="a", task=Command(argv=("true",)), isolation="sandbox"),
        Job(name="b", task=Container(image="alpine")),
        Job(
            name="c",
            task=Steps(steps=(Step(name="s", script="make"),), source=Source(git="https://x/y")),
            isolation="user",
        ),
    ]
    assert wants_of(otd.Settings(), jobs) == Wants(True, True, True, True, True)
    assert wants_of(otd.Settings(), jobs[1:2]) == Wants(containers=True)
    assert wants_of(otd.Settings(), []) == Wants()


def test_too_few_open_files_are_a_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    found = doctor.open_files(otd.Settings(seats=64))
    assert (found.state, found.found, found.remedy, found.is_fault) == ("broken", "256", "ulimit -n 4096", True)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert doctor.open_files(otd.Settings(seats=64)).state == "ok"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert doctor.open_files(otd.Settings()).found == "any number"


def test_a_spool_needs_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = doctor.spool(tmp_path / "not" / "yet" / "there", wanted=True)
    assert (found.state, found.is_fault) == ("ok", False)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(doctor, "LEAST_DISK", 1 << 62)
    assert doctor.spool(tmp_path, wanted=True).is_fault
    assert not doctor.spool(tmp_path, wanted=False).is_fault


def test_a_spool_that_other_users_cannot_reach_is_broken():
    with tempfile.TemporaryDirectory() as home:
        spool = Path(home, "spool")
        found = doctor.spool(spool, wanted=True, passed=True)
        assert (found.state, found.remedy) == ("broken", f"chmod o+x {home}")
        assert doctor.spool(spool, wanted=True).state == "ok"
        Path(home).chmod(0o711)
        assert doctor.spool(spool, wanted=True, passed=True).state == "ok"


def test_a_read_only_spool_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = doctor.spool(tmp_path, wanted=True)
    assert (found.state, found.found) == ("broken", f"{tmp_path}: may not be written to")


def test_the_spool_is_in_the_folder_for_state(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert spool_of(otd.Settings()) == Path("/state/onthedot/spool")


@pytest.mark.parametrize(
    ("groups", "state", "words"),
    [
        (Cgroups(2, frozenset({"memory", "pids", "cpu"}), writable=True), "ok", "v2, cpu, memory, pids; writable"),
        (Cgroups(2, frozenset({"memory", "pids"})), "broken", "v2, memory, pids; not writable"),
        (Cgroups(2, frozenset({"cpu"}), writable=True), "broken", "v2, cpu; without memory and pids"),
        (Cgroups(1, frozenset(), writable=True), "broken", "v1, no controllers; without memory and pids"),
        (Cgroups(0), "missing", "no control groups"),
    ],
)
def test_control_groups_are_checked(groups: Cgroups, state: str, words: str):
    found = doctor.control_groups(groups)
    assert (found.state, found.found) == (state, words)


def test_zone_data_is_checked(monkeypatch: pytest.MonkeyPatch):
    assert doctor.zones().state == "ok"
    monkeypatch.setattr(doctor, "tzdata_version", lambda: "unknown")
    assert (doctor.zones().state, doctor.zones().is_fault) == ("broken", False)

    def missing(name: str) -> None:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(doctor, "ZoneInfo", missing)
    assert (doctor.zones().state, doctor.zones().is_fault) == ("missing", True)


async def test_tables_of_an_application_that_would_go_into_the_store(postgres_url: str):
    """The tests' role is called like the default schema, and so its own tables would be made there."""
    await (await PostgresStore.open(postgres_url)).close()
    found = (await findings(postgres_url))["tables"]
    assert (found.state, found.is_fault) == ("broken", False)
    assert found.found.startswith("the search path of the role onthedot (")
    assert found.remedy.endswith("ALTER ROLE onthedot SET search_path = public")
    await (await PostgresStore.open(f"{postgres_url}?schema=jobs")).close()
    assert "tables" not in await findings(f"{postgres_url}?schema=jobs")
