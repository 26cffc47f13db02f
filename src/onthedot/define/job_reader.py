"""Reads jobs from a YAML file, a text, or plain data. It reports every problem at once, with its place.

    jobs:
      - name: nightly
        schedule: "0 2 * * *"          # or {cron: "0 2 * * *", tz: Europe/Berlin}; a list of them: schedules
        source: {git: "https://example.org/shop.git", ref: main}
        steps:
          - name: build
            run: make                  # a text for /bin/sh; or argv: [make, all], or command: make all
          - name: mourn
            if: failure
            run: cat build.log
        artifacts: ["dist/*.whl"]
        timeout: 20m
        paused: {reason: it moves}     # or true, with until: 2027-01-01T09:00Z as well; false resumes it
        retry: {attempts: 3, on: [75]} # exit codes, or names of errors

A job has `steps`, or one command (`run`, `argv`, `command`), or `url`, `task` and `format`, which mean a source and its
usual steps, or one of `call`, `sleep`, `noop`, `http` and `container` (`key_readers.py`). All options of a job are
keys here. `job_writer.py` writes the same words.

A problem in a file has a line and a column; a problem in plain data has a path (`schedules[0].cron`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from onthedot.define.key_readers import OPTION_READERS, read_delay, read_pause, read_schedules
from onthedot.define.key_readers import TASK_READERS as TASKS
from onthedot.define.options import OPTIONS, build_job
from onthedot.define.yaml_text import (
    MOST_CHARACTERS,
    OF_FILES,
    Limits,
    Node,
    NodeError,
    Place,
    Problem,
    WrongText,
    check_names,
    in_data,
    inner_place,
    plain_nodes,
    read_nodes,
    shown,
)
from onthedot.model.duration import parse_duration
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job
from onthedot.model.task import Command, Source, Step, Steps, Task

_SCHEDULE = ("schedule", "schedules", "run_once", "is_recurring", "tz")
_WHAT = ("argv", "command", "run", "shell")
_COMMAND = (*_WHAT, "directory", "env", "stdin")
_STEPS = ("steps", "source", "artifacts", "env")
_PACKAGE = ("url", "task", "format", "ref", "artifacts", "env")
JOB = tuple(dict.fromkeys((*OPTIONS, "paused", *_SCHEDULE, *_COMMAND, *_STEPS, *_PACKAGE, *TASKS)))
"""Every key of a job."""
STEP = (*_WHAT, "name", "directory", "env", "if", "when", "timeout", "retry", "attempts", "delay")
"""Every key of a step."""

_SOMETHING: dict[str, Any] = {"script": "true"}

FORMATS: Mapping[str, Mapping[str, str]] = {
    "go": {"build": "go build -v ./...", "test": "go test -v ./..."},
    "make": {"build": "make", "test": "make test"},
}
"""What `task` means for each `format` of a package."""


def read_file(path: Path) -> list[Job]:
    """The jobs of a file; `WrongText` with every problem in it."""
    return read_jobs(read_text(path), str(path))


def read_text(path: Path, most: int = MOST_CHARACTERS) -> str:
    """The text of a file; `WrongText` if it cannot be read, is no UTF-8, or is too long."""
    bytes_ = 4 * most  # of UTF-8, a character has four at the most
    try:
        with path.open("rb") as file:
            found = file.read(bytes_ + 1)
    except OSError as error:
        raise WrongText([Problem(str(path), None, f"expected a file that can be read, got {error.strerror}")]) from None
    try:
        text = found[:bytes_].decode("utf-8-sig", errors="strict" if len(found) <= bytes_ else "ignore")
    except UnicodeDecodeError as error:
        problem = f"expected text in UTF-8, got other bytes at {error.start}"
        raise WrongText([Problem(str(path), None, problem)]) from None
    if len(found) > bytes_ or len(text) > most:
        raise WrongText([Problem(str(path), None, f"expected at most {most} characters, got more")])
    return text


def read_jobs(text: str, file: str = "jobs.yaml", limits: Limits = OF_FILES, *, four_fields: bool = False) -> list[Job]:
    """The jobs of a text. For text from a network use `OF_STRANGERS`. For `four_fields` see `read_schedules`.

    >>> [job] = read_jobs("jobs: [{name: clean, schedule: '@daily', run: rm -rf tmp}]")
    >>> job.task.script
    'rm -rf tmp'
    """
    found = JobReader(four_fields=four_fields)
    root = read_nodes(text, file, limits)
    jobs = found.jobs(root)
    if found.problems:
        raise WrongText(Problem(file, at, problem) for at, problem in sorted(found.problems))
    return jobs


def read_job(data: object, *, stored: bool = False) -> Job:
    """The job of a mapping; `WrongText` with every problem and its path.

    >>> read_job({"name": "clean", "schedule": "@daily", "run": "rm -rf tmp"}).task.script
    'rm -rf tmp'
    >>> read_job({"name": "clean", "schedules": [{"cron": "61 * * * *"}], "run": "x"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.define.yaml_text.WrongText: schedules[0].cron: minute: expected 0-59, got '61' ...
    """
    found = JobReader(stored=stored)
    job = found.job(plain_nodes(data))
    if job is None or found.problems:
        raise WrongText(in_data(at, problem) for at, problem in sorted(found.problems))
    return job


def read_job_list(data: object) -> list[Job]:
    """The jobs of a mapping with the key `jobs`: a whole file, as plain data.

    >>> [job.name for job in read_job_list({"jobs": [{"name": "a", "noop": True}]})]
    ['a']
    """
    found = JobReader()
    jobs = found.jobs(plain_nodes(data))
    if found.problems:
        raise WrongText(in_data(at, problem) for at, problem in sorted(found.problems))
    return jobs


class JobReader:
    """Reads jobs from nodes, and collects the problems with their places. For `stored` see `check_job`, for
    `four_fields` `read_schedules`."""

    def __init__(self, *, stored: bool = False, four_fields: bool = False) -> None:
        self._stored = stored
        self._four_fields = four_fields
        self.problems: list[tuple[Place, str]] = []

    def problem(self, at: Place, text: str) -> None:
        self.problems.append((at, text))

    def jobs(self, root: Node) -> list[Job]:
        if not self._is_mapping(root, "a mapping with the key 'jobs'"):
            return []
        self._known(root, ("jobs",))
        listed = (root.names or {}).get("jobs")
        if listed is None or listed.items is None:
            self.problem(root.at if listed is None else listed.at, "jobs: expected a list of jobs ('- name: …')")
            return []
        jobs = [self.job(node) for node in listed.items]
        self._check_repeated(listed.items)
        return [job for job in jobs if job is not None]

    def _check_repeated(self, nodes: list[Node]) -> None:
        """Report jobs with the same name and namespace, also those that have other problems."""
        seen: set[tuple[str, str]] = set()
        for node in nodes:
            given = {key: one.value for key, one in (node.names or {}).items() if key in ("name", "namespace")}
            name, namespace = given.get("name"), given.get("namespace", "default")
            if not isinstance(name, str) or not isinstance(namespace, str):
                continue
            if (namespace, name) in seen:
                self.problem(self._place(node, "name"), f"name: expected each job once, got {name!r} again")
            seen.add((namespace, name))

    # ── one job ──────────────────────────────────────────────────────────────────────────────────────────────

    def job(self, node: Node) -> Job | None:
        """Read one job; None if it has problems."""
        if not self._is_mapping(node, "a job: a mapping with name, schedule and steps"):
            return None
        before = len(self.problems)
        names = node.names or {}
        self._known(node, JOB)
        options = self._options(node)
        if not isinstance(options.get("name"), str):
            self.problem(self._place(node, "name"), "name: expected a text, such as 'name: nightly'")
            options["name"] = "it"
        options["schedules"] = self._read(
            node, "schedule", partial(read_schedules, names, four_fields=self._four_fields)
        )
        paused = self._read(node, "paused", lambda: read_pause(names["paused"])) if "paused" in names else None
        task = self._task(node)
        known = task or Command(**_SOMETHING)  # replaces the wrong part, so that other problems are reported, too
        read = {key: one for key, one in options.items() if one is not None}
        try:
            job = build_job(known, read, stored=self._stored, unread=options.keys() - read.keys())
        except DefinitionError as error:
            for problem in error.problems:
                self.problem(self._where(node, problem), problem)
            return None
        return replace(job, paused=paused) if len(self.problems) == before else None

    def _options(self, node: Node) -> dict[str, Any]:
        """The options of a job, as `build_job` takes them."""
        options: dict[str, Any] = {}
        for name, value in (node.names or {}).items():
            if name in OPTIONS and name not in _SCHEDULE:
                read = OPTION_READERS.get(name)
                options[name] = value.value if read is None else self._read(node, name, partial(read, value))
        return options

    def _task(self, node: Node) -> Task | None:
        names = node.names or {}
        kinds = {"steps": "steps" in names, "url": "url" in names, "run": any(key in names for key in _WHAT)}
        chosen = [kind for kind, there in kinds.items() if there] + [key for key in TASKS if key in names]
        if len(chosen) != 1:
            got = " and ".join(chosen) or "none of them"
            self.problem(
                node.at, f"expected one of steps, run (or argv, command) and url, got {got}; or {', '.join(TASKS)}"
            )
            return None
        allowed = {"steps": _STEPS, "url": _PACKAGE, "run": _COMMAND}.get(chosen[0], ())
        for key in names:
            if key in (*_STEPS, *_PACKAGE, *_COMMAND) and key not in allowed and key not in OPTIONS:
                instead = "use steps ('steps: [{run: …}]')" if chosen[0] == "run" and key in _STEPS else "leave it out"
                self.problem(node.places[key], f"{key}: it does not go with {chosen[0]!r}; {instead}")
        if chosen[0] == "steps":
            return self._steps(node)
        if chosen[0] == "url":
            return self._package(node)
        if chosen[0] in TASKS:
            made: Task | None = self._read(node, chosen[0], partial(TASKS[chosen[0]], names[chosen[0]]))
            return made
        return Command(**self._command(node), env=self._env(node), stdin=self._text(node, "stdin"))

    def _steps(self, node: Node) -> Task:
        steps = (node.names or {})["steps"]
        if not steps.items:
            self.problem(steps.at, "steps: expected a list of steps ('- name: …')")
        read = [self._step(step, number) for number, step in enumerate(steps.items or [], 1)]
        return Steps(
            steps=tuple(step for step in read if step is not None),
            env=self._env(node),
            source=self._source(node),
            artifacts=self._texts(node, "artifacts"),
        )

    def _step(self, node: Node, number: int) -> Step | None:
        if not self._is_mapping(node, "a step: a mapping with name and run"):
            return None
        names = node.names or {}
        self._known(node, STEP)
        more: dict[str, Any] = {}
        if "timeout" in names:
            more["timeout"] = self._read(
                node, "timeout", partial(parse_duration, names["timeout"].value, what="timeout")
            )
        if "delay" in names:
            more["delay"] = self._read(node, "delay", partial(read_delay, names["delay"].value, "delay"))
        when = self._text(node, "if") or self._text(node, "when")
        if when:
            more["when"] = when.removesuffix("()")
        more |= self._step_tries(node)
        name = self._text(node, "name") or f"step {number}"
        given = {key: value for key, value in more.items() if value is not None}
        return Step(name=name, **self._command(node), env=self._env(node), **given)

    def _step_tries(self, node: Node) -> dict[str, Any]:
        """`attempts: 3`, `retry: 3` or `retry: {attempts: 3, delay: 5s}`."""
        names = node.names or {}
        tries = names.get("retry", names.get("attempts"))
        if tries is None:
            return {}
        if tries.names is None:
            return {"attempts": tries.value}
        self._known(tries, ("attempts", "delay"))
        delay = tries.names.get("delay")
        read = self._read(node, "retry", lambda: read_delay(delay.value, "retry.delay")) if delay else None
        attempts = tries.names.get("attempts")
        return {"attempts": 1 if attempts is None else attempts.value, "delay": read}

    def _command(self, node: Node) -> dict[str, Any]:
        """A program with its arguments, or a script for the shell."""
        names = node.names or {}
        shell = names["shell"].value if "shell" in names else False
        if not isinstance(shell, bool):
            self.problem(names["shell"].at, f"shell: expected true or false, got {shell!r}")
        fields: dict[str, Any] = {"directory": self._text(node, "directory")}
        ways = [key for key in ("run", "argv", "command") if key in names]
        if len(ways) != 1:
            got = " and ".join(ways) or "none of them"
            self.problem(node.at, f"expected what is to be run, as one of run, argv and command; got {got}")
            return {**fields, **_SOMETHING}
        value = names[ways[0]]
        if value.items is not None and ways[0] != "run":
            fields["argv"] = self._texts(node, ways[0]) or ("",)
        elif value.text is None or ways[0] == "argv":
            wanted = "a list of texts" if ways[0] == "argv" else "a text"
            self.problem(value.at, f"{ways[0]}: expected {wanted}, got {shown(value)}")
            fields |= _SOMETHING
        elif ways[0] == "run" or shell:
            fields["script"] = value.text
        else:
            try:
                fields["argv"] = tuple(shlex.split(value.text))
            except ValueError as error:
                self.problem(value.at, f"command: expected words as in a shell, but {error}".replace("No ", "no "))
                fields |= _SOMETHING
        return fields

    def _package(self, node: Node) -> Task | None:
        """`url`, `task` and `format`: a repository, and what is usually done with it."""
        names = node.names or {}
        kind = self._text(node, "format") or "go"
        if kind not in FORMATS:
            self.problem(names["format"].at, f"format: expected one of {', '.join(FORMATS)}, got {kind!r}")
            return None
        task = names.get("task")
        if task is None:
            wanted = list(FORMATS[kind])
        elif task.items is not None:
            wanted = list(self._texts(node, "task"))
        else:
            wanted = [word.strip() for word in (task.text or "").split(",")]
        unknown = [word for word in wanted if word not in FORMATS[kind]]
        for word in unknown:
            at = node.at if task is None else task.at
            self.problem(at, f"task: expected some of {', '.join(FORMATS[kind])}, got {word!r}")
        steps = tuple(Step(name=word, script=FORMATS[kind][word]) for word in wanted if word not in unknown)
        source = Source(git=self._text(node, "url"), ref=self._text(node, "ref"))
        return Steps(steps=steps, env=self._env(node), source=source, artifacts=self._texts(node, "artifacts"))

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────

    def _source(self, node: Node) -> Source | None:
        source = (node.names or {}).get("source")
        if source is None:
            return None
        if source.text is not None:
            return Source(git=source.text)
        if not self._is_mapping(source, "source: a mapping with git, ref and key"):
            return None
        self._known(source, ("git", "ref", "key"))
        return Source(git=self._text(source, "git"), ref=self._text(source, "ref"), key=self._text(source, "key"))

    def _env(self, node: Node) -> dict[str, str]:
        """The values exactly as they are written: `1.10` is no number here."""
        env = (node.names or {}).get("env")
        if env is None:
            return {}
        if env.names is None:
            self.problem(env.at, "env: expected names with their values")
            return {}
        for name, value in env.names.items():
            if value.text is None:
                self.problem(value.at, f"env: expected a text for {name!r}, got {shown(value)}")
        return {name: value.text or "" for name, value in env.names.items()}

    def _text(self, node: Node, key: str) -> str:
        value = (node.names or {}).get(key)
        if value is None:
            return ""
        if value.text is None:
            self.problem(value.at, f"{key}: expected a text, got {shown(value)}")
        return value.text or ""

    def _texts(self, node: Node, key: str) -> tuple[str, ...]:
        value = (node.names or {}).get(key)
        if value is None:
            return ()
        if value.items is None or any(item.text is None for item in value.items):
            self.problem(value.at, f"{key}: expected a list of texts, got {shown(value)}")
            return ()
        return tuple(item.text or "" for item in value.items)

    def _read(self, node: Node, key: str, read: Callable[[], Any]) -> Any:
        """Call a reader; report its problems at the place of the key, or of the inner key that they name."""
        try:
            return read()
        except NodeError as error:
            self.problems += error.problems
        except DefinitionError as error:
            for problem in error.problems:
                named = problem.partition(":")[0]  # `retry.delay: …`
                self.problem(inner_place(node, named if named.startswith(f"{key}.") else key), problem)
        return None

    def _known(self, node: Node, allowed: tuple[str, ...]) -> None:
        self.problems += check_names(node, allowed)

    def _is_mapping(self, node: Node, expected: str) -> bool:
        if node.names is None:
            self.problem(node.at, f"expected {expected}, got {shown(node)}")
        return node.names is not None

    def _place(self, node: Node, key: str) -> Place:
        return (node.names or {})[key].at if key in (node.names or {}) else node.at

    def _where(self, node: Node, problem: str) -> Place:
        """The place of a problem of the whole definition: `step 2 (…): …`, `timeout: …`."""
        names = node.names or {}
        step = re.match(r"step (\d+) [^:]*: ([a-z_]*)", problem)
        if step is not None and "steps" in names and names["steps"].items:
            return self._place(names["steps"].items[int(step[1]) - 1], step[2])
        key = re.match(r"[a-z_]+(\.[a-z_]+)*", problem)
        if key is None:
            return node.at
        inner = [names[kind] for kind in TASKS if kind in names and key[0].split(".")[0] in (names[kind].names or {})]
        return inner_place(inner[0] if inner else node, key[0])
