"""A worker offers an isolation level only if a trial of it works on this machine."""

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
def test_all_levels_are_offered_if_the_machine_supports_them():
    assert isolation_levels() == frozenset(LEVELS)


@pytest.mark.slow
def test_without_bubblewrap_the_sandbox_level_is_not_offered(monkeypatch):
    monkeypatch.setattr(sandbox, "bubblewrap", lambda *_, **__: ["/no/such/bwrap"])
    assert isolation_levels() >= {"none", "process"}
    assert "sandbox" not in isolation_levels()


@pytest.mark.slow
def test_without_root_the_user_level_is_not_offered(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "user" not in isolation_levels()


@pytest.mark.slow
def test_the_guard_imports_only_a_few_modules():
    """It starts when a program already waits for it. Fewer modules also make a fork safer."""
    listing = "import onthedot.runners.guard.main, sys; print(*sorted(sys.modules))"
    source = Path(onthedot.__file__).parents[1]  # without `site`, an installed package is not on the path
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
def test_a_sandbox_refuses_user_namespaces_even_without_the_filter():
    """This needs bubblewrap 0.8. With older versions only the filter refuses them."""
    with sandbox.in_descriptors(sandbox.sandbox_files({}, 0, "/")[:3]) as handed:
        words = sandbox.bubblewrap("/usr", "/usr", handed=handed)
        if not sandbox.can_disable_namespaces(words[0]):
            pytest.skip(f"{NOT_TESTED}user namespaces inside of a sandbox: needs bubblewrap 0.8")
        allowed = subprocess.run([*words, "true"], pass_fds=handed, check=False)
    with sandbox.in_descriptors(sandbox.sandbox_files({}, 0, "/")[:3]) as handed:
        words = sandbox.bubblewrap("/usr", "/usr", handed=handed)
        inside = subprocess.run(
            [*words, "unshare", "--user", "true"], pass_fds=handed, capture_output=True, check=False
        )
    assert (allowed.returncode, b"No space left" in inside.stderr) == (0, True)


def test_a_bubblewrap_that_cannot_be_read_counts_as_an_old_one(tmp_path):
    old = tmp_path / "bwrap"
    old.write_bytes(b"\x7fELF --unshare-user")
    assert not sandbox.can_disable_namespaces(str(old))
    assert not sandbox.can_disable_namespaces("/no/such/bwrap")
