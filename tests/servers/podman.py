"""Runs Podman with Docker's API on a socket, and keeps all its files in one folder. Needs root.

Its only image is made of Debian's busybox, so no registry is needed. It uses runc and cgroupfs, because Debian's
default runtime does not support hybrid cgroups. The default ulimits are small, because root without CAP_SYS_RESOURCE
cannot raise them.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from onthedot.runners import container_engines
from tests.servers import running, setup

IMAGE = "localhost/busybox:test"
APPLETS = ("sh", "cat", "dd", "echo", "head", "id", "ls", "sleep", "tail", "touch", "true", "wc", "yes")
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class Podman:
    """A container engine. Closing it removes its containers. It runs in its own folder, because conmon writes an empty
    file `oom` into the current folder when a container runs out of memory."""

    def __init__(self) -> None:
        program = setup.PODMAN.found()
        if program is None:
            raise running.ServerTrouble(setup.PODMAN.why_missing())
        self.folder = running.make_folder("podman")
        self.log = self.folder / "log"
        self.url = f"unix://{self.folder}/podman.sock"
        configuration = self.folder / "containers.conf"
        configuration.write_text(CONFIGURATION)
        self._environment = {**os.environ, "CONTAINERS_CONF": str(configuration)}
        self._command = [
            program, "--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"),
            "--storage-driver", "vfs", "--runtime", "runc", "--cgroup-manager", "cgroupfs",
        ]  # fmt: skip
        self._popen: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str, patience: float = running.PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run one command of podman."""
        return subprocess.run(
            [*self._command, *arguments], cwd=self.folder, env=self._environment, capture_output=True, text=True,
            check=False, timeout=patience,
        )  # fmt: skip

    def why_not(self) -> str:
        """Podman's error if no container can run here; empty if one can."""
        image = self.folder / "busybox.tar"
        with tarfile.open(image, "w") as content:
            add_busybox(content, APPLETS)
        imported = self.run("import", str(image), IMAGE)
        tried = imported if imported.returncode else self.run("run", "--rm", "--network", "none", IMAGE, "true")
        return (tried.stderr.strip().splitlines() or ["no message"])[-1] if tried.returncode else ""

    def __enter__(self) -> Self:
        return self

    def start(self) -> Self:
        with self.log.open("ab") as output:
            self._popen = subprocess.Popen(
                [*self._command, "system", "service", "--time", "0", self.url],
                cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        running.wait_answers(lambda: container_engines.answers(self.url), self._popen, self.log, "podman")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run("rm", "--all", "--force", "--time", "0")
        if self._popen is not None:
            self._popen.terminate()
            running.wait_ended(self._popen, "podman")
        running.remove_folder(self.folder)


def add_busybox(content: tarfile.TarFile, applets: Iterable[str]) -> None:
    """Add busybox, links to it with these names, and the rest of a root file system to an image."""
    busybox = shutil.which("busybox", path=setup.SYSTEM_PATH)
    if busybox is None:
        raise running.ServerTrouble(setup.PODMAN.why_missing())
    for folder in ("bin", "tmp", "etc"):
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
        content.addfile(entry)
    content.add(busybox, "bin/busybox", filter=_executable)
    for applet in applets:
        add_link(content, f"bin/{applet}", "busybox")
    add_text(content, "etc/passwd", "root:x:0:0::/:/bin/sh\n")


def add_link(content: tarfile.TarFile, name: str, target: str) -> None:
    """Add a symbolic link to an image."""
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    content.addfile(link)


def add_text(content: tarfile.TarFile, name: str, text: str) -> None:
    """Add a small file to an image."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text), 0o644
    content.addfile(entry, io.BytesIO(text.encode()))


def _executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode, entry.uid, entry.gid = 0o755, 0, 0
    return entry
