"""Makes the environments of peers, and finds out which systems work there.

    python -m bench.peers.environments FOLDER REQUIREMENTS

If not all packages can be installed, they are installed one by one, because a peer may have no build for this Python
yet. What fails then is written with its reason to `missing.json` in the folder, and the bench skips what needs it.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.peers.catalog import System
from bench.peers.child import child
from bench.results import BenchFailed

MISSING = "missing.json"
PATIENCE = 60.0  # seconds for a program to say its version
_TRIES = 3  # failures in a row that mean: there is no network


def make(folder: Path, requirements: Path) -> dict[str, str]:
    """Make an environment with what can be installed. Return what cannot, and why."""
    venv.create(folder, clear=True, with_pip=True)
    missing: dict[str, str] = {}
    if (reason := _install(folder, requirements)) is not None:
        print(f"not all of {requirements} can be installed; one by one: {reason}", file=sys.stderr)
        missing = _install_singly(folder, requirements.read_text())
    (folder / MISSING).write_text(json.dumps(missing, indent=1) + "\n")
    return missing


def _install_singly(folder: Path, text: str) -> dict[str, str]:
    missing: dict[str, str] = {}
    in_a_row = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, lines in split(text):
            one = Path(scratch, f"{name}.txt")
            one.write_text(lines)
            reason = _install(folder, one)
            in_a_row = 0 if reason is None else in_a_row + 1
            if reason is not None:
                missing[name] = reason
                print(f"{name}: {reason}", file=sys.stderr)
            if in_a_row == _TRIES:
                raise BenchFailed(f"{_TRIES} packages in a row could not be installed; is there a network?")
    return missing


def split(requirements: str) -> Iterator[tuple[str, str]]:
    """Yield each package of a requirements file: its name, and its lines with all hashes."""
    for lines in re.split(r"\n(?=[A-Za-z0-9])", requirements):
        if found := re.match(r"([A-Za-z0-9._-]+)==", lines):
            yield found[1], lines + "\n"


def _install(folder: Path, requirements: Path) -> str | None:
    """Install exactly these packages. Return None, or the reason why it failed."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    command = [*pip, "--require-hashes", "--no-deps", "-r", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return (errors or done.stderr.splitlines() or ["no reason given"])[-1].removeprefix("ERROR: ")[:300]


# ── which systems work ───────────────────────────────────────────────────────────────────────────────────────


class Environments:
    """Where the systems' programs run: `base` has the peers, `base`-2 those that conflict with them."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def folder(self, environment: str) -> Path:
        """Return the folder of an environment, by its name in the catalog."""
        return self._base.with_name(self._base.name + environment.removeprefix("peers"))

    def command(self, system: System) -> list[str]:
        """Return the command that starts a node. Links stay: Python finds its environment by them."""
        python = sys.executable
        if system.environment:
            python = str((self.folder(system.environment) / "bin" / "python").absolute())
        return [python, "-m", f"bench.peers.nodes.{system.node}"]

    async def versions(self, systems: Sequence[System], scratch: Path) -> tuple[dict[str, str], dict[str, str]]:
        """Return the version of each system that works, and why each of the others does not."""
        found = await asyncio.gather(*(self._version(system, scratch) for system in systems))
        versions = {one.name: version for one, (version, _) in zip(systems, found, strict=True) if version}
        return versions, {one.name: why for one, (version, why) in zip(systems, found, strict=True) if not version}

    async def _version(self, system: System, scratch: Path) -> tuple[str, str]:
        command = self.command(system)
        if not self._is_there(command[0]):
            return "", f"there is no environment in {self.folder(system.environment).name}; `make bench-peers` makes it"
        store = next(iter(system.stores))
        url = {"memory": "memory:", "sqlite": f"sqlite:///{scratch / 'version.db'}"}.get(
            store, f"{store}://127.0.0.1:1/0"
        )
        try:
            async with asyncio.timeout(PATIENCE), child(f"version-{system.name}", [*command, url], scratch) as node:
                return (await node.ask("version"))["version"], ""
        except BenchFailed as failure:
            return "", self._reason(system, str(failure).splitlines()[-1].strip())
        except TimeoutError:
            return "", f"its program did not answer within {PATIENCE:.0f} s"

    def _is_there(self, python: str) -> bool:
        return Path(python).exists()

    def _reason(self, system: System, error: str) -> str:
        """Return why a program fails, with the packages that it names and that could not be installed."""
        file = self.folder(system.environment) / MISSING
        missing: Mapping[str, str] = json.loads(file.read_text()) if file.exists() else {}
        culprits = [f"{name}: {why}" for name, why in missing.items() if name.replace("-", "_") in error]
        return "; ".join([error, *culprits])


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
