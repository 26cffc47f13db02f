"""Describes every key of a job, with examples. The JSON Schema shows both in editors and in the API.

The keys are grouped by the mapping that they belong to. A test reads each example with the schema and `read_job`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class KeyDoc(NamedTuple):
    """The meaning of a key, with examples of its value in a file."""

    description: str
    examples: tuple[Any, ...]


def _key(description: str, *examples: Any) -> KeyDoc:
    return KeyDoc(description, examples)


_ARGS = _key("Arguments of the run, by name. They must be JSON.", {"region": "eu", "full": True})
_ENV = _key("Environment variables, by name. They are added to a small, clean environment.", {"MODE": "full"})
_ARGV = _key("A program and its arguments, as a list. No shell reads them.", ["pg_dump", "--file=all.sql"])
_PATTERNS = ["dist/*.whl", "report.html"]
_GIT = _key(
    "Address of a git repository: by https, ssh or file, or user@host:path.",
    "https://example.org/shop.git",
    "git@example.org:team/shop.git",
)
_REF = _key("Branch, tag or commit to check out. Without it, the default branch is used.", "main", "v2.1")

COMMAND: dict[str, KeyDoc] = {
    "run": _key("A script for /bin/sh. It stops at the first command that fails.", "make test", "ls | wc -l"),
    "argv": _ARGV,
    "command": _key(
        "A command line that is split into words, or a list of words. With 'shell: true' it is a script.",
        "python3 report.py --all",
        ["python3", "report.py"],
    ),
    "shell": _key("If true, /bin/sh reads 'command'. The default is false.", True),
    "directory": _key(
        "Directory in which the program starts: inside the run's workspace, or an absolute path.", "build", "/srv"
    ),
    "env": _ENV,
}
"""Keys of a job that runs one program, and of a step."""

STEP: dict[str, KeyDoc] = {
    **COMMAND,
    "name": _key("Name of the step, unique in its job.", "build"),
    "if": _key(
        "Condition of the step: it runs after success of all earlier steps (the default), after a failure, or always.",
        "failure",
        "always",
    ),
    "when": _key("The same as 'if'.", "failure"),
    "timeout": _key("Longest time for the step. After it, the step is stopped and counts as failed.", "10m"),
    "retry": _key("Number of tries of the step in all. A mapping also sets the delay.", 3, {"attempts": 3}),
    "attempts": _key("Number of tries of the step in all. The default is 1.", 3),
    "delay": _key("Delay before the step is tried again. The default is 1s.", "5s"),
}
STEP_RETRY: dict[str, KeyDoc] = {
    "attempts": _key("Number of tries of the step in all. The default is 1.", 3),
    "delay": _key("Delay before the step is tried again. The default is 1s.", "5s"),
}
SOURCE: dict[str, KeyDoc] = {
    "git": _GIT,
    "ref": _REF,
    "key": _key("Secret for access to the repository: a private key for ssh, a token for https.", "${{ secrets.GIT }}"),
}
HTTP: dict[str, KeyDoc] = {
    "url": _key("Address of the request, by http or https.", "https://example.org/hook"),
    "method": _key("Method of the request. The default is GET.", "POST"),
    "headers": _key("Headers of the request, by name.", {"Authorization": "Bearer ${{ secrets.TOKEN }}"}),
    "body": _key("Body of the request, sent as JSON. It needs a method such as POST.", {"done": True}, "text"),
    "expect": _key("Statuses that mean success. The default is 200 to 299.", 204, [200, 404]),
}
CONTAINER: dict[str, KeyDoc] = {
    "image": _key("Image to start.", "alpine:3", "registry.example.org/report@sha256:0f1e"),
    "argv": _key(
        "Arguments of the image's program. Without this key, the image's own arguments are used.", ["sh", "-c", "date"]
    ),
    "env": _key("Environment variables of the container, by name.", {"MODE": "full"}),
    "network": _key("Network of the container: 'none' (the default), 'bridge' or the name of a network.", "bridge"),
    "mounts": _key(
        "Directories of the worker's machine that the container sees, if its operator allows them.",
        [{"source": "/srv/data", "target": "/data"}],
    ),
    "user": _key("User that the program runs as: a name or a number, with or without a group.", "1000:1000"),
    "entrypoint": _key("Program that starts instead of the image's own. 'argv' has its arguments.", "sh"),
}
MOUNT: dict[str, KeyDoc] = {
    "source": _key("Directory of the worker's machine: an absolute path.", "/srv/data"),
    "target": _key("Path at which the container sees the directory. It is absolute.", "/data"),
    "writable": _key("If true, the container may write there. The default is false.", True),
}

FORMS: dict[str, KeyDoc] = {
    "cron": _key(
        "Times on the clock: minute, hour, day, month and weekday. With 6 fields the first is the second.",
        "30 2 * * *",
        "*/10 8-18 * * MON-FRI",
        "@daily",
    ),
    "every": _key("A steady interval, at least 10 ms.", "10m", "1h30m from 2026-01-01T00:00Z"),
    "at": _key("One point in time, or several.", "2026-12-24T18:00+01:00", ["2026-12-24T18:00Z", "2026-12-31T23:00Z"]),
    "in": _key("One time, this long after the job is stored.", "10m"),
    "gap": _key("A pause between the end of one run and the start of the next.", "10m"),
}
"""The keys that set the times of a schedule. Exactly one of them is given."""

SCHEDULE: dict[str, KeyDoc] = {
    "tz": _key("Time zone of the schedule. The default is UTC.", "Europe/Berlin"),
    "gap": _key("Rule for a time that a clock change leaves out: run after it (the default), or skip it.", "skip"),
    "fold": _key("Rule for a time that a clock change repeats: the first (the default), the second, or both.", "both"),
    "seconds": _key("If true, the first cron field is the second. It is needed only for 4 fields.", True),
    "run_once": _key("If true, the schedule ends after its first time. The default is false.", True),
    "start": _key(
        "First point in time that counts. Without an offset it is in the schedule's zone.", "2026-01-01T00:00Z"
    ),
    "end": _key("Last point in time that counts. Without an offset it is in the schedule's zone.", "2026-12-31T23:59Z"),
    "max_count": _key("Maximum number of times of the schedule. Skipped times count.", 10),
    "jitter": _key("Maximum delay of each run after its time, to spread the load.", "5m"),
    "args": _key("Arguments for runs of this schedule, added to those of the job.", {"full": True}),
    "id": _key("Name of the schedule within the job. Its history belongs to this name.", "nightly"),
}
AFTER: dict[str, KeyDoc] = {
    "jobs": _key("Jobs after which this job runs.", "load", ["load", "clean"]),
    "any": _key("If true, one of the jobs is enough. The default is false: all are needed.", True),
    "on": _key("Required result of these jobs: 'success' (the default), 'failure', or 'either'.", "failure"),
}
CATCH_UP: dict[str, KeyDoc] = {
    "mode": _key("Missed times that still run: 'none', the 'last' one (the default), or 'all' of them.", "all"),
    "limit": _key("With 'all', the maximum number of missed times that run. The default is 100.", 10),
    "window": _key("Maximum age of a missed time. The default is 1d.", "2h"),
}
OVERLAP: dict[str, KeyDoc] = {
    "mode": _key(
        "Rule for a run that is due before an earlier one has ended: 'wait', 'skip', 'allow' both, or 'replace' it.",
        "wait",
        "allow",
    ),
    "max_waiting": _key(
        "With 'wait', the maximum number of waiting runs. Later ones are skipped. The default is 1.", 3
    ),
    "max_running": _key("With 'allow', the maximum number of runs at once. The default is no limit.", 2),
}
CONCURRENCY: dict[str, KeyDoc] = {
    "most": _key("Maximum number of runs that execute at once, across the cluster.", 10),
    "key": _key("Name of an argument. Each of its values has its own limit.", "tenant"),
    "name": _key("Name of a limit that several jobs of the namespace share.", "mail-api"),
}
RATE: dict[str, KeyDoc] = {
    "most": _key("Maximum number of runs that start within 'per', across the cluster.", 100),
    "per": _key("The length of time for 'most'. The default is 1m.", "1s"),
    "burst": _key("Maximum number of runs that start at the same instant. The default is 1.", 5),
    "key": _key("Name of an argument. Each of its values has its own rate.", "tenant"),
    "name": _key("Name of a rate that several jobs of the namespace share.", "mail-api"),
}
RETRY: dict[str, KeyDoc] = {
    "attempts": _key("Number of tries of a run in all. The default is 1: no retry.", 3),
    "backoff": _key("Growth of the delay: 'exponential' (the default), 'linear' or 'fixed'.", "fixed"),
    "delay": _key("The delay before the first retry. The default is 1s.", "10s"),
    "max_delay": _key("The longest delay. The default is 5m.", "1h"),
    "jitter": _key("If true, each delay is shortened at random, to half at most. The default is true.", False),
    "on": _key(
        "Exit codes, or names of Python errors, that are retried. The default is all.", [75], ["ConnectionError"]
    ),
    "on_timeout": _key("If true, a run that took too long is retried. The default is true.", False),
    "when": _key("Name of a Python function of the program that decides about each retry.", "shop.rules.is_temporary"),
}
PAUSED: dict[str, KeyDoc] = {
    "reason": _key("Reason for the pause, in one line.", "the database moves"),
    "until": _key("Time at which the job resumes by itself. It needs an offset.", "2027-01-01T09:00Z"),
}
BOUNDS: dict[str, KeyDoc] = {
    "cpu": _key("Processor time of each process. The default is 1h; null is no limit.", "30m"),
    "memory": _key("Memory of the attempt's processes. The default is 2G; null is no limit.", "512M"),
    "processes": _key("Maximum number of processes at once. The default is 256; null is no limit.", 64),
    "files": _key("Maximum number of open files in one process. The default is 1024; null is no limit.", 256),
    "file_bytes": _key("Size of the largest file that may be written. The default is 4G; null is no limit.", "1G"),
    "output": _key(
        "Amount of output that is kept for an attempt: its first and its last half. The default is 10M.",
        "1M",
    ),
}
PARAM: dict[str, KeyDoc] = {
    "name": _key("Name of the parameter: letters, digits and '_'.", "region"),
    "kind": _key(
        "Type of the value: 'text' (the default), 'number', 'whole' (a number without fraction) or 'yes_or_no'.", "text"
    ),
    "default": _key("Value of the parameter if a run does not give it.", "eu"),
    "choices": _key("The only values that are accepted.", ["eu", "us"]),
    "required": _key("If true, each run must give the parameter. The default is false.", True),
    "pattern": _key("A regular expression that the whole text must match.", "[a-z]{2}"),
}

JOB: dict[str, KeyDoc] = {
    "name": _key("Name of the job, unique in its namespace.", "nightly_report"),
    "namespace": _key("Namespace of the job. The default is 'default'.", "team-a"),
    "owner": _key("The person or team that the job belongs to.", "ada@example.org"),
    "paused": _key(
        "Pauses the job (true), or resumes it (false). A mapping gives the reason and the end.",
        True,
        {"reason": "the database moves", "until": "2027-01-01T09:00Z"},
    ),
    # when it runs
    "schedule": _key(
        "Times at which the job runs: a line of text, a mapping with options, or a list of these.",
        "30 2 * * *",
        "every 10m",
        {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
    ),
    "schedules": _key("Several schedules: see 'schedule'.", ["@daily", {"every": "6h", "args": {"full": False}}]),
    "tz": _key("Time zone of the job's schedules. The default is UTC.", "Europe/Berlin"),
    "run_once": _key("If true, the schedule ends after its first time. The default is false.", True),
    "is_recurring": _key("The opposite of 'run_once'. The default is true.", False),
    "after": _key(
        "Runs the job after other jobs have succeeded; a mapping has more options.",
        "load",
        ["load", "clean"],
        {"jobs": ["load", "clean"], "any": True},
    ),
    # what it runs
    **COMMAND,
    "stdin": _key("Text that the program reads from its standard input.", "yes\n"),
    "steps": _key(
        "Several programs that run in order, in one workspace.",
        [{"name": "build", "run": "make"}, {"name": "report", "if": "failure", "run": "cat build.log"}],
    ),
    "source": _key(
        "Git repository that is checked out before the first step.",
        "https://example.org/shop.git",
        {"git": "https://example.org/shop.git", "ref": "main"},
    ),
    "artifacts": _key("Files of the workspace that are kept, as patterns.", _PATTERNS),
    "url": _GIT,
    "task": _key("Task for the repository of 'url'. The default is all tasks of its format.", "build", ["test"]),
    "format": _key("Build format of the repository of 'url'. The default is 'go'.", "make"),
    "ref": _REF,
    "call": _key("Name of a Python handler that the workers' program has registered.", "report"),
    "sleep": _key("Does nothing for this long. Use it to try schedules out.", "5s"),
    "noop": _key("Does nothing at all. Use it to measure, or as a meeting point of jobs.", True),
    "http": _key(
        "Sends an HTTP request. A mapping has more options than the address.",
        "https://example.org/hook",
        {"url": "https://example.org/hook", "method": "POST", "body": {"done": True}},
    ),
    "container": _key(
        "Runs a container. A mapping has more options than the image.",
        "alpine:3",
        {"image": "alpine:3", "argv": ["sh", "-c", "date"]},
    ),
    "args": _ARGS,
    "params": _key(
        "Arguments that a run may have: a default for each name, or a mapping. No others are accepted.",
        {"region": {"choices": ["eu", "us"], "default": "eu"}, "full": False},
    ),
    # how it runs
    "timeout": _key("Longest time for an attempt. After it, the attempt is stopped and counts as failed.", "20m", 90),
    "retry": _key("Number of tries of a run in all. A mapping has more options.", 3, {"attempts": 3, "delay": "10s"}),
    "overlap": _key(
        "Rule for a run that is due before an earlier one has ended: 'wait', 'skip', 'allow' both, or "
        "'replace' it. The default is 'wait' for a job with schedules, else 'allow'.",
        "skip",
        {"mode": "wait", "max_waiting": 3},
    ),
    "catch_up": _key(
        "Missed times that still run: 'none', the 'last' one (the default), or 'all' of them.",
        "none",
        {"mode": "all", "limit": 10, "window": "2h"},
    ),
    "concurrency": _key(
        "Maximum number of runs that execute at once, across the cluster. A mapping can limit by an argument.",
        2,
        {"most": 10, "key": "tenant"},
    ),
    "rate": _key(
        "Maximum number of runs that start within a time, across the cluster. A number alone counts per minute.",
        "5/1s",
        100,
        {"most": 5, "per": "1s", "burst": 2},
    ),
    "guarantee": _key(
        "'at_least_once' (the default), 'at_most_once', or 'exactly_once' for Python handlers with a transaction.",
        "at_most_once",
    ),
    "max_recoveries": _key("Number of times that a run starts again after its worker was lost. The default is 3.", 1),
    "isolation": _key(
        "Isolation level: 'none' (the default), 'process' for Python handlers, 'user' or 'sandbox' for others.",
        "sandbox",
    ),
    "bounds": _key("The most that an attempt of a program may use.", {"memory": "512M", "cpu": "30m"}),
    # where it runs
    "queue": _key("Queue that the runs wait in. The default is 'default'.", "mail"),
    "priority": _key("Priority of the runs in their queue: higher ones start first. The default is 'normal'.", "high"),
    "labels": _key("Labels that a worker must offer.", ["gpu", "region=eu"]),
    "on": _key("'any' worker (the default), or 'all': once on each worker of the queue.", "all"),
    "share": _key("Name of the argument whose values share the queue fairly.", "tenant"),
    "assignment": _key("A 'worker' takes the runs (the default), or the 'leader' assigns them.", "leader"),
}
"""Every key of a job."""

FILE: dict[str, KeyDoc] = {
    "jobs": _key("The jobs of this file.", [{"name": "clean", "schedule": "@daily", "run": "rm -rf tmp"}]),
}
