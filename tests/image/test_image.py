"""The container image works: it is built from its Containerfile and run in a real engine."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

import onthedot as otd
from tests.image.base import NAME, WHEELS, write_base
from tests.processes.kit import wait_until
from tests.servers import running
from tests.servers.podman import Podman

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

IMAGE = "localhost/onthedot:test"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def engine(podman: Podman) -> Podman:
    """An engine that has built the image."""
    if not any(WHEELS.glob("*.whl")):
        pytest.fail(f"expected wheels in {WHEELS}, found none; download them with: make .venv/.image", pytrace=False)
    base = podman.folder / "python.tar"
    write_base(base)
    for arguments in (
        ["import", str(base), NAME],
        ["build", "--network", "none", "--layers=false", "--build-arg", f"PYTHON={NAME}", "--volume",
         f"{WHEELS}:/wheels:ro", "--tag", IMAGE, "--file", str(ROOT / "Containerfile"), str(ROOT)],
    ):  # fmt: skip
        done = podman.run(*arguments, patience=600)
        assert done.returncode == 0, done.stderr[-3000:]
    return podman


def output_of(engine: Podman, *arguments: str) -> str:
    """Returns what a container of the image prints, without a network."""
    done = engine.run("run", "--rm", "--network", "none", *arguments, patience=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_image_works(engine: Podman):
    """One test for all of it: otherwise each test process would build the image again."""
    runs_the_command_line(engine)
    runs_without_root_and_writes_only_to_its_folder(engine)
    contains_the_libraries_of_all_stores_and_extras(engine)
    serves_stops_cleanly_and_keeps_its_data(engine)


def runs_the_command_line(engine: Podman) -> None:
    assert output_of(engine, IMAGE, "--version") == f"onthedot {otd.__version__}\n"


def runs_without_root_and_writes_only_to_its_folder(engine: Podman) -> None:
    told = output_of(
        engine, "--entrypoint", "sh", IMAGE, "-c", "id -u; touch /data/x && echo wrote; touch /opt/x || true"
    )
    assert told.split() == ["10001", "wrote"]


def contains_the_libraries_of_all_stores_and_extras(engine: Podman) -> None:
    modules = "asyncpg, redis, hiredis, fastapi, uvicorn, argon2, joserfc, prometheus_client, cryptography, aiodocker"
    assert output_of(engine, "--entrypoint", "python", IMAGE, "-c", f"import {modules}; print('all')") == "all\n"


def serves_stops_cleanly_and_keeps_its_data(engine: Podman) -> None:
    first = run_once(engine, "first")
    assert "store     /data/onthedot.db (new)" in first
    second = run_once(engine, "second")
    [store] = [line for line in second.splitlines() if line.startswith("store")]
    assert "/data/onthedot.db" in store
    assert "new" not in store


def run_once(engine: Podman, name: str) -> str:
    """Run one container from its start to a clean stop. Returns its logs."""
    port = running.free_port()
    options = ["--name", name, "--network", "host", "--volume", "otd-data:/data", "--log-driver", "k8s-file"]
    command = ["up", "--plain", "--listen", f"127.0.0.1:{port}"]
    started = engine.run("run", "--detach", *options, IMAGE, *command, patience=120)
    assert started.returncode == 0, started.stderr
    wait_until(lambda: answers(port), f"the server in {name} to answer", patience=60)
    assert engine.run("stop", "--time", "60", name, patience=120).returncode == 0
    code = engine.run("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip()
    logs = logs_of(engine, name)
    assert (code, "left       node" in logs) == ("0", True), logs
    return logs


def logs_of(engine: Podman, name: str) -> str:
    logs = engine.run("logs", name)
    return logs.stdout + logs.stderr


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False
