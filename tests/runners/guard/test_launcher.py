"""A program has its limits from its first instruction on, however it is started."""

import os
import resource

import pytest

from onthedot.model.task import Bounds
from onthedot.runners.guard import launcher
from onthedot.runners.guard.launcher import Rights, limits_of, spawn

pytestmark = pytest.mark.slow

SHOWN = 'echo "$(ulimit -Sn) $(ulimit -Sc) $(ulimit -Sd) $(ulimit -Sf)"'
BOUNDED = (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)


def limits_seen_by_a_program(bounds: Bounds) -> str:
    limits = limits_of(bounds, own_user=False)
    spawned = spawn(["sh", "-c", SHOWN], {"PATH": "/usr/bin:/bin"}, "/", reads=False, rights=Rights(limits=limits))
    os.waitpid(spawned.pid, 0)
    try:
        return os.read(spawned.out, 1000).decode().strip()
    finally:
        for end in spawned[2:]:
            if end >= 0:
                os.close(end)


@pytest.fixture(autouse=True)
def no_limits_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are set from outside come too late, and a guard that spawns works in `/`."""
    monkeypatch.chdir("/")
    monkeypatch.setattr(resource, "prlimit", lambda *_: (0, 0))


def test_limits_are_set_before_the_program_starts():
    before = [resource.getrlimit(number) for number in BOUNDED]
    assert (
        limits_seen_by_a_program(Bounds(files=64, memory=1 << 30, file_bytes=1 << 20))
        == f"64 0 {1 << 20} {(1 << 20) // 512}"
    )
    assert [resource.getrlimit(number) for number in BOUNDED] == before


def test_a_limit_may_be_lower_than_the_guards_own_use():
    before = [resource.getrlimit(number) for number in BOUNDED]
    assert limits_seen_by_a_program(Bounds(files=8, memory=8 << 20, file_bytes=4096)) == f"8 0 {8 << 10} 8"
    assert [resource.getrlimit(number) for number in BOUNDED] == before


def test_a_file_limit_may_be_lower_than_the_guards_open_files():
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(70)]
    try:
        assert limits_seen_by_a_program(Bounds(files=64)).startswith("64 0 ")
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_a_failed_start_does_not_change_the_guards_own_limits():
    before = [resource.getrlimit(number) for number in BOUNDED]
    with pytest.raises(FileNotFoundError):
        spawn(
            ["nosuch"], {"PATH": "/usr/bin"}, "/", reads=False,
            rights=Rights(limits=limits_of(Bounds(files=64), own_user=False)),
        )  # fmt: skip
    assert [resource.getrlimit(number) for number in BOUNDED] == before
    assert launcher.limits_of(Bounds(), own_user=False)[0] == (resource.RLIMIT_CORE, 0)
