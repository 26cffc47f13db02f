"""What a machine offers is tried out; users are given to one program at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

import onthedot
from onthedot.model.task import LEVELS
from onthedot.runners.guard import sandbox
from onthedot.runners.probes import isolation_levels
from tests.servers.plugin import NOT_TESTED


@pytest.mark.slow
@pytest.mark.usefixtures("root", "sandbox")
def test_all_levels_are_offered_where_all_can_be_given():
    assert isolation_levels() == frozenset(LEVELS)


@pytest.mark.slow
def test_without_bubblewrap_there_is_no_sandbox(monkeypatch):
    monkeypatch.setattr(sandbox, "bubblewrap", lambda *_, **__: ["/no/such/bwrap"])
    assert isolation_levels() >= {"none", "process"}
    assert "sandbox" not in isolation_levels()


@pytest.mark.slow
def test_without_root_there_are_no_users(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "user" not in isolation_levels()


@pytest.mark.slow
def test_the_guard_loads_little():
    """It is started when a program waits for it; and what is not loaded cannot be in the way of a fork."""
    listing = "import onthedot.runners.guard.main, sys; print(*sorted(sys.modules))"
    source = Path(onthedot.__file__).parents[1]  # without `site`, an installed package is not found by itself
    done = subprocess.run(
        [sys.executable, "-S", "-c", listing], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(source)},
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert not loaded & {
        "asyncio",
        "sqlite3",
        "subprocess",
        "ssl",
        "concurrent.futures",
        "onthedot.stores.protocol",
        "onthedot.model.job",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("sandbox")
def test_no_user_namespace_is_made_inside_even_without_the_filter():
    """bubblewrap 0.8 and later; for older ones the filter alone refuses it."""
    with sandbox.in_descriptors(sandbox.sandbox_files({}, 0, "/")[:3]) as handed:
        words = sandbox.bubblewrap("/usr", "/usr", handed=handed)
        if not sandbox.can_disable_namespaces(words[0]):
            pytest.skip(f"{NOT_TESTED}user namespaces inside of a sandbox: needs bubblewrap 0.8")
        there = subprocess.run([*words, "true"], pass_fds=handed, check=False)
    with sandbox.in_descriptors(sandbox.sandbox_files({}, 0, "/")[:3]) as handed:
        words = sandbox.bubblewrap("/usr", "/usr", handed=handed)
        inside = subprocess.run(
            [*words, "unshare", "--user", "true"], pass_fds=handed, capture_output=True, check=False
        )
    assert (there.returncode, b"No space left" in inside.stderr) == (0, True)


def test_a_program_whose_file_cannot_be_read_is_taken_for_an_old_one(tmp_path):
    old = tmp_path / "bwrap"
    old.write_bytes(b"\x7fELF --unshare-user")
    assert not sandbox.can_disable_namespaces(str(old))
    assert not sandbox.can_disable_namespaces("/no/such/bwrap")
