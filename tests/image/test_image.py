"""The image: built from its recipe, and run as one does, in a real engine."""

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
    """An engine that has the image."""
    if not any(WHEELS.glob("*.whl")):
        pytest.fail("what the image is made of is missing, and can be fetched: make .venv/.image", pytrace=False)
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


def said(engine: Podman, *arguments: str) -> str:
    """What a container of the image says, without a network."""
    done = engine.run("run", "--rm", "--network", "none", *arguments, patience=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_image(engine: Podman):
    """All of it in one test: processes that share the tests would each build it."""
    is_the_command_line(engine)
    is_nobody_and_owns_its_folder_alone(engine)
    has_every_store_and_all_that_goes_with_them(engine)
    serves_drains_and_goes_on_where_it_was(engine)


def is_the_command_line(engine: Podman) -> None:
    assert said(engine, IMAGE, "--version") == f"onthedot {otd.__version__}\n"


def is_nobody_and_owns_its_folder_alone(engine: Podman) -> None:
    told = said(engine, "--entrypoint", "sh", IMAGE, "-c", "id -u; touch /data/x && echo wrote; touch /opt/x || true")
    assert told.split() == ["10001", "wrote"]


def has_every_store_and_all_that_goes_with_them(engine: Podman) -> None:
    modules = "asyncpg, redis, hiredis, fastapi, uvicorn, argon2, joserfc, prometheus_client, cryptography, aiodocker"
    assert said(engine, "--entrypoint", "python", IMAGE, "-c", f"import {modules}; print('all')") == "all\n"


def serves_drains_and_goes_on_where_it_was(engine: Podman) -> None:
    first = life(engine, "first")
    assert "store     /data/onthedot.db (new)" in first
    second = life(engine, "second")
    [store] = [line for line in second.splitlines() if line.startswith("store")]
    assert "/data/onthedot.db" in store
    assert "new" not in store


def life(engine: Podman, name: str) -> str:
    """One container, from start to a drain that was asked for; what it has said."""
    port = running.free_port()
    options = ["--name", name, "--network", "host", "--volume", "otd-data:/data", "--log-driver", "k8s-file"]
    command = ["up", "--plain", "--listen", f"127.0.0.1:{port}"]
    started = engine.run("run", "--detach", *options, IMAGE, *command, patience=120)
    assert started.returncode == 0, started.stderr
    wait_until(lambda: answers(port), f"the server in {name} to answer", patience=60)
    assert engine.run("stop", "--time", "60", name, patience=120).returncode == 0
    code = engine.run("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip()
    logs = told_by(engine, name)
    assert (code, "left       node" in logs) == ("0", True), logs
    return logs


def told_by(engine: Podman, name: str) -> str:
    logs = engine.run("logs", name)
    return logs.stdout + logs.stderr


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False
