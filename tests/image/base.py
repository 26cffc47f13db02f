"""Makes a root file system with the Python that runs the tests. It replaces the usual base image, which is online."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from tests.servers.podman import add_busybox, add_link, add_text

NAME = "localhost/python:test"
WHEELS = Path(sys.prefix) / "image-wheels"
"""`make soak` downloads wheels to this folder. It is `/wheels` while an image is built."""

_APPLETS = ("sh", "cat", "chown", "env", "id", "ls", "mkdir", "sleep", "true")
_EXCLUDED = {"__pycache__", "idlelib", "lib2to3", "site-packages", "dist-packages", "test", "tkinter", "turtledemo"}
# Compiled wheels expect these libraries on any machine.
_WHEEL_LIBRARIES = ("libdl.so.2", "libgcc_s.so.1", "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libutil.so.1")
_DEBIAN_WHEELS = Path("/usr/share/python-wheels")  # wheels that Debian's ensurepip needs
_LIBRARY_PATH = re.compile(r"(/\S+)")


def write_base(path: Path) -> None:
    """Write the file system as a tar file."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(os.path.realpath(sys.executable))
    library = Path(sysconfig.get_path("stdlib"))
    with tarfile.open(path, "w") as content:
        add_busybox(content, _APPLETS)
        add_text(content, "etc/pip.conf", "[global]\nno-index = true\nfind-links = /wheels\n")
        content.add(program, f"usr/local/bin/{version}")
        for name in ("python", "python3"):
            add_link(content, f"usr/local/bin/{name}", version)
        content.add(library, f"usr/local/lib/{version}", filter=_wanted)
        if _DEBIAN_WHEELS.exists():
            content.add(_DEBIAN_WHEELS, str(_DEBIAN_WHEELS).lstrip("/"))
        for one in sorted(_shared_libraries([program, *library.glob("lib-dynload/*.so")])):
            content.add(one.resolve(), str(one).lstrip("/"))


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(entry.name).parts
    return None if _EXCLUDED & set(parts) or any(part.startswith("config-") for part in parts) else entry


def _shared_libraries(programs: list[Path]) -> set[Path]:
    """Returns the shared libraries that these programs and common wheels need."""
    output = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=True).stdout
    found = {
        Path(name) for line in output.splitlines() if line.startswith("\t") for name in _LIBRARY_PATH.findall(line)
    }
    folder = next(one.parent for one in found if one.name.startswith("libc.so"))
    return {one for one in [*found, *(folder / name for name in _WHEEL_LIBRARIES)] if one.exists()}
