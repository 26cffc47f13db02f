"""What is checked out into a workspace before the first step: git, run as a program like any other.

No hooks, no questions, no configuration of the machine or the user, no submodules. What a user wrote comes after `--`.
A job that is kept apart may not name a repository by its path on this machine: git reads more than the job could.
"""

from __future__ import annotations

from onthedot.task import Level, Source

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "safe.directory=*",
    "advice.detachedHead=false",
    "init.defaultBranch=main",
)


def checkout(source: Source) -> list[tuple[str, ...]]:
    """The commands, in order, each with its arguments. They may be run again in a workspace that has a checkout.

    >>> checkout(Source(git="https://example.org/shop.git", ref="v2"))[1][-5:]
    ('--depth=1', '--no-tags', '--', 'https://example.org/shop.git', 'v2')
    """
    git = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))
    return [
        (*git, "init", "--quiet", "--template="),
        (*git, "fetch", "--quiet", "--no-recurse-submodules", "--depth=1", "--no-tags", "--", source.git,
         source.ref or "HEAD"),
        (*git, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"),
    ]  # fmt: skip


def git_level(isolation: Level, least: Level) -> Level:
    """How far git is kept apart, for a job at this level where the operator wants at least that.

    It needs the network, which a sandbox has not. So for such a job it runs outside of it: as the worker itself, or as
    a user of its own where nothing may run as the worker.

    >>> git_level("sandbox", "none"), git_level("sandbox", "user"), git_level("user", "none")
    ('none', 'user', 'user')
    """
    if isolation != "sandbox":
        return isolation
    return "none" if least == "none" else "user"


def git_environment(level: Level) -> dict[str, str]:
    """What git is told beside the environment of every program."""
    protocols = "https:ssh:file" if level == "none" else "https:ssh"
    return {
        "GIT_ALLOW_PROTOCOL": protocols,
        "GIT_ASKPASS": "true",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "GIT_TERMINAL_PROMPT": "0",
    }
