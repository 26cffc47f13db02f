"""Checks out a job's source before its first step: the commands and the environment of git.

git runs as a program like any other, without hooks, prompts, submodules, or configuration of the machine or the user.
Text that a user wrote comes after `--`. An isolated job may not name a repository by its path on this machine, because
git can read more than the job could.

git connects only to allowed addresses, as HTTP jobs do (`model/addresses.py`). We resolve the name once, and git gets
the address. git follows no redirects. Its only key is the one that the job names (`Source.key`): it gets no keys of the
worker, and no agent.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from onthedot.model.addresses import Address, Allowed, GitTarget, check, literal, read_git
from onthedot.model.task import Level, Source
from onthedot.runners.http import resolve

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "safe.directory=*",
    "advice.detachedHead=false",
    "init.defaultBranch=main",
    "http.followRedirects=false",
    "http.proxy=",
    "credential.helper=",
)
_SSH = (
    "-Fnone", "-oBatchMode=yes", "-oIdentitiesOnly=yes", "-oIdentityAgent=none", "-oPreferredAuthentications=publickey",
    "-oStrictHostKeyChecking=yes", "-oCheckHostIP=no", "-oUpdateHostKeys=no", "-oControlPath=none",
)  # fmt: skip
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


class Way(NamedTuple):
    """The target to which git connects for a source, and its allowed addresses."""

    target: GitTarget
    addresses: Sequence[Address]


async def find_way(source: Source, allowed: Allowed) -> Way | None:
    """Resolve the host of a source. Return None for a path of this machine. Raise `AddressRefused` if git may not
    connect to the host, and `ConnectionError` if there is no such host."""
    target = read_git(source.git)
    if target is None:
        return None
    address = literal(target.host)
    addresses = [address] if address is not None else await resolve(target.host, target.port)
    check(target.host, addresses, allowed)
    return Way(target, addresses)


def checkout(source: Source, way: Way | None = None) -> list[tuple[str, ...]]:
    """Return the commands of a checkout, in order. They may run again in a workspace that has a checkout already.

    >>> checkout(Source(git="https://example.org/shop.git", ref="v2"))[1][-5:]
    ('--depth=1', '--no-tags', '--', 'https://example.org/shop.git', 'v2')
    """
    settings = [*_SETTINGS]
    if way is not None and way.target.scheme == "https":
        where = ",".join(f"[{address}]" if address.version == 6 else str(address) for address in way.addresses)
        settings.append(f"http.curloptResolve={way.target.host}:{way.target.port}:{where}")
    git = ("git", *(word for setting in settings for word in ("-c", setting)))
    return [
        (*git, "init", "--quiet", "--template="),
        (*git, "fetch", "--quiet", "--no-recurse-submodules", "--depth=1", "--no-tags", "--", source.git,
         source.ref or "HEAD"),
        (*git, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"),
    ]  # fmt: skip


def git_level(isolation: Level, offered: frozenset[Level]) -> Level:
    """Return git's level for a job at this level: a sandbox that shares the network, if the machine offers one.

    >>> git_level("sandbox", frozenset({"none", "sandbox"})), git_level("user", frozenset({"none", "user"}))
    ('sandbox', 'user')
    """
    return "sandbox" if isolation != "none" and "sandbox" in offered else isolation


def git_environment(level: Level, way: Way | None = None, *, key: str = "", folder: str = "") -> dict[str, str]:
    """Return the variables for git, besides the environment of every program. `folder` has the files of `ssh_files`."""
    env = {
        "GIT_ALLOW_PROTOCOL": "https:ssh:file" if level == "none" else "https:ssh",
        "GIT_ASKPASS": "true",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_SSH_COMMAND": "false",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if way is None:
        return env
    if way.target.scheme == "ssh":
        env["GIT_SSH_COMMAND"] = _ssh(way, folder, has_key=bool(key))
    elif key:
        # in the environment, because every user of the machine can read arguments
        said = key if ":" in key else f"x-access-token:{key}"
        env |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {b64encode(said.strip().encode()).decode()}",
        }
    return env


def _ssh(way: Way, folder: str, *, has_key: bool) -> str:
    host, port = way.target.host, way.target.port
    place = folder.replace("%", "%%")  # ssh expands `%` and the character after it
    words = [
        "ssh", *_SSH,
        f"-oHostName={way.addresses[0]}",
        f"-oHostKeyAlias={host if port == 22 else f'[{host}]:{port}'}",
        f'-oUserKnownHostsFile="{place}/known_hosts"',
        "-oGlobalKnownHostsFile=/dev/null",
        f'-oIdentityFile="{place}/key"' if has_key else "-oIdentityFile=none",
        f"-oPubkeyAuthentication={'yes' if has_key else 'no'}",
    ]  # fmt: skip
    return shlex.join(words)


def ssh_files(way: Way | None, key: str) -> dict[str, str]:
    """Return the files that ssh reads: the hosts that the worker knows, and the job's key. Empty for https. This reads
    files."""
    if way is None or way.target.scheme != "ssh":
        return {}
    known = []
    for name in _KNOWN_HOSTS:
        try:
            known.append(Path(name).expanduser().read_text(encoding="utf-8", errors="replace"))
        except (OSError, RuntimeError):  # no such file, or no home
            continue
    return {"known_hosts": "\n".join(known), **({"key": key.rstrip() + "\n"} if key else {})}
