"""A worker without root, with one sandboxed job: `python -m tests.hostile.unprivileged_worker`.

It prints JSON: the files that bubblewrap's loader wrote, and the output of the job, which lists what the job could
reach.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket

from tests.runners.guard.guarded_programs import PYTHON, GuardedPrograms

REACHES = """
import json, os, socket, sys
store, other, guard, name = sys.argv[1:]
def reached(what):
    try:
        what()
    except OSError as error:
        return False
    return True
print(json.dumps({
    "uid": os.getuid(),
    "environment": sorted(os.environ),
    "store": reached(lambda: open(store)),
    "workspaces": reached(lambda: os.listdir(other)),
    "tmp": len(os.listdir("/tmp")),  # the way to its workspace
    "processes": len([entry for entry in os.listdir("/proc") if entry.isdigit()]),
    "guard": reached(lambda: os.kill(int(guard), 0)),
    "sockets": reached(lambda: socket.socket(socket.AF_UNIX).connect(chr(0) + name)),
    "filter": next(line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:")),
}))
"""


async def main() -> None:
    guarded = GuardedPrograms()
    try:
        drop, other = guarded.workspace("drop"), guarded.workspace("other")
        (guarded.root / "store.db").write_text("everything")
        (other / "note").write_text("private")
        await guarded.run("true")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"\0onthedot-{guarded.root.name}")
            listening.listen()
            end = await guarded.run(
                PYTHON, "-c", REACHES, str(guarded.root / "store.db"), str(other), str(guarded.guard.pid),
                f"onthedot-{guarded.root.name}", level="sandbox",
                env={"PATH": "/usr/bin:/bin", "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{drop}/trace"},
            )  # fmt: skip
        print(json.dumps({"end": end, "traces": os.listdir(drop), "output": guarded.output()}))
    finally:
        await guarded.close()


if __name__ == "__main__":
    asyncio.run(main())
