"""The JSON Schema (2020-12) of a job, and of a file of jobs: for editors, for OpenAPI, for programs that write jobs.

The names and choices come from the tables that the reader itself uses, the descriptions and examples from
`key_docs.py`. It refuses what is plainly wrong, with patterns that a person can read. `read_job` has the last word, and
the better messages.

A pattern accepts everything that the reader accepts, and refuses what is plainly wrong. It is short, because editors
show it. Editors that know `patternErrorMessage` (VS Code does) show that instead.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from onthedot.define import key_docs
from onthedot.define.check import LABEL, MOST_LABELS, MOST_PARENTS, MOST_SCHEDULES, NAME
from onthedot.define.check_task import (
    HEADER,
    IMAGE,
    KEY,
    METHODS,
    MOST_HEADERS,
    MOST_PATTERNS,
    MOST_STEPS,
    MOST_TEXT,
    MOST_TRIES,
    MOST_WORDS,
    NETWORK,
    REF,
    USER,
    VARIABLE,
)
from onthedot.define.job_reader import FORMATS
from onthedot.define.key_docs import KeyDoc
from onthedot.define.key_readers import CONTAINER, HTTP, MOST_REASON, PAUSE
from onthedot.model.after import On
from onthedot.model.duration import LONGEST
from onthedot.model.job import Guarantee
from onthedot.model.policies import Backoff, CatchUpMode
from onthedot.model.route import PRIORITIES
from onthedot.model.task import LEVELS, Bounds, When
from onthedot.runners.param_patterns import MOST_PATTERN
from onthedot.schedules.cron_parser import ALIASES
from onthedot.schedules.evaluation import MOST

Schema = dict[str, Any]

# Units are recognised by their first letter. The reader knows them exactly, and names the one that was meant.
_NUMBER = r"[0-9]+(\.[0-9]+)?"
DURATION = f"({_NUMBER} ?[WDHMSUwdhmsuµ][A-Za-z]* ?)+"
_DATE = "[0-9]{4}-[01][0-9]-[0-3][0-9]"
_TIME = r"[0-2][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_OFFSET = "(Z|[+-][01][0-9]:[0-5][0-9])"
LOCAL = f"{_DATE}([T ]{_TIME}{_OFFSET}?)?"
INSTANT = f"{_DATE}[T ]{_TIME}{_OFFSET}"


def any_case(word: str) -> str:
    """
    >>> any_case("Mo/1")
    '[mM][oO]/1'
    """
    return "".join(
        f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() and letter.isascii() else letter for letter in word
    )


def whole(pattern: str, expected: str = "") -> Schema:
    """A text that matches as a whole. `expected` is what an editor shows for another one."""
    schema: Schema = {"type": "string", "pattern": f"^({pattern})$"}
    return {**schema, "patternErrorMessage": f"Expected {expected}."} if expected else schema


def _field(value: str, *, joins: str = "-,(", ends: str = "") -> str:
    """A cron field: values between joining signs, with steps. The reader says more about what it does not take."""
    one = f"([*Hh{ends}]|{value})"
    return rf"{one}([{joins}]{one}|[){ends}]|/[0-9]+)*"


def _cron() -> str:
    aliases = "|".join(map(any_case, ALIASES))
    sixty, hour = _field("[0-5]?[0-9]"), _field("[01]?[0-9]|2[0-3]")
    day = _field("0?[1-9]|[12][0-9]|3[01]", ends="LlWw")
    month, weekday = _field("0?[1-9]|1[0-2]|[A-Za-z]{3}"), _field("0?[0-7]|[A-Za-z]{3}", joins="-,(#", ends="Ll")
    four = f"{sixty} +{sixty} +{hour} +{day}"
    return f"{aliases}|({sixty} +)?{sixty} +{hour} +{day} +{month} +{weekday}|{four}"


CRON = _cron()
_RHYTHM = f"({DURATION})( from {INSTANT})?"
_INSTANTS = f"{LOCAL}(, {LOCAL})*"
FORMS: dict[str, str] = {"cron": CRON, "every": _RHYTHM, "gap": _RHYTHM, "at": _INSTANTS, "in": DURATION}
"""By form: what stands after its name."""

_LINES = "|".join(f"({any_case(form)} +{pattern})" for form, pattern in FORMS.items() if form != "cron")
_CRON_TEXT = "'30 2 * * *' (minute hour day month weekday) or '@daily'"
EXPECTED: dict[str, str] = {
    "cron": f"a cron expression such as {_CRON_TEXT}",
    "every": "an interval such as '10m' or '1h30m from 2026-01-01T00:00Z'",
    "gap": "a length of time such as '10m'",
    "at": "a point in time such as '2026-12-24T18:00+01:00'",
    "in": "a length of time such as '10m'",
}
"""By form: what an editor expects after its name."""
SCHEDULE_LINE: Schema = {
    **whole(f"{CRON}|{_LINES}|{DURATION}", f"a schedule: {_CRON_TEXT}, 'every 10m', 'gap 10m', 'in 10m' or 'at …'"),
    "description": "A schedule on one line: a cron expression, 'every', 'gap', 'at' or 'in'.",
}
_DURATION_TEXT = whole(DURATION, "a length of time such as '90s', '1h30m' or '2 days'")

LENGTH: Schema = {
    "description": "A length of time above zero: '90s', '1h30m', '2 days', or a number of seconds.",
    "anyOf": [_DURATION_TEXT, {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST.total_seconds()}],
}
DELAY: Schema = {
    "description": "A length of time, or none: '0s'.",
    "anyOf": [_DURATION_TEXT, {"type": "number", "minimum": 0, "maximum": LONGEST.total_seconds()}],
}
_SIZE = r"[1-9][0-9]{0,11}(\.[0-9]{1,6})? ?[KMGTkmgt]?i?[bB]?"
SIZE: Schema = {
    "description": "An amount of bytes: 65536, '512M', '2GiB'.",
    "anyOf": [whole(_SIZE, "an amount of bytes such as '512M' or '2GiB'"), {"type": "integer", "minimum": 1}],
}


DIALECT = "https://json-schema.org/draft/2020-12/schema"
AT = "#/$defs/"

_MILLION = 1_000_000
_PARAM = "[A-Za-z_][A-Za-z0-9_]{0,99}"
_KINDS = ("text", "number", "whole", "yes_or_no")
_FLAG: Schema = {"type": "boolean"}
# As `const: true` says it, which generators of clients do not read.
_TRUE: Schema = {"type": "boolean", "not": {"enum": [False]}}
_PATH = r"/[^/\u0000]+(/[^/\u0000]+)*"


def job_schema() -> Schema:
    """The schema of one job, as `read_job` reads it.

    >>> job_schema()["$ref"]
    '#/$defs/job'
    """
    return {"$schema": DIALECT, "title": "onthedot: a job", "$ref": f"{AT}job", "$defs": definitions()}


def file_schema() -> Schema:
    """The schema of a file of jobs. In a file a number may replace a text: `env: {LEVEL: 3}`.

    >>> file_schema()["required"]
    ['jobs']
    """
    jobs = _described(key_docs.FILE, {"jobs": {"type": "array", "items": {"$ref": f"{AT}job"}}})
    return {
        "$schema": DIALECT,
        "title": "onthedot: a file of jobs",
        **_object(jobs, required=("jobs",)),
        "$defs": definitions(text=("string", "number", "boolean")),
    }


def definitions(at: str = AT, text: tuple[str, ...] = ("string",)) -> dict[str, Schema]:
    """The schemas by name: `job`, and what it refers to as `<at><name>`."""
    return _Definitions(at, text).all()


def _object(properties: dict[str, Any], *, required: tuple[str, ...] = (), **more: Any) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return {**schema, "required": list(required)} if required else schema


def _described(docs: dict[str, KeyDoc], properties: dict[str, Schema]) -> dict[str, Schema]:
    """The properties with their descriptions and examples. Every key must have both."""
    return {
        name: {**schema, "description": docs[name].description, "examples": list(docs[name].examples)}
        for name, schema in properties.items()
    }


def _choice(*choices: str) -> Schema:
    return {"type": "string", "enum": list(choices)}


def _number(least: int, most: int | None = None) -> Schema:
    return {"type": "integer", "minimum": least, **({} if most is None else {"maximum": most})}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema, least: int = 0, most: int | None = None, **more: Any) -> Schema:
    schema: Schema = {"type": "array", "items": items, **({"minItems": least} if least else {}), **more}
    return schema if most is None else {**schema, "maxItems": most}


def _has(name: str) -> Schema:
    """An object with this key. Linters want required keys to be declared."""
    return {"required": [name], "properties": {name: {}}}


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


class _Definitions:
    def __init__(self, at: str, text: tuple[str, ...]) -> None:
        self._at = at
        kind: Any = text[0] if len(text) == 1 else list(text)
        self._text: Schema = {"type": kind, "maxLength": MOST_TEXT, "pattern": "^[^\\u0000]*$"}
        self._line: Schema = {"type": kind, "maxLength": MOST_TEXT, "pattern": "^[^\\u0000\\r\\n]*$"}

    def all(self) -> dict[str, Schema]:
        return {
            "job": self._job(),
            "schedule": self._schedule(),
            "step": self._step(),
            "length": LENGTH,
            "delay": DELAY,
            "size": SIZE,
            "env": self._env(),
            "args": {"description": "Arguments by name, in JSON.", "type": "object", "additionalProperties": {}},
            "name": whole(NAME.pattern, "letters, digits, '_', '-', '.' or ':', at most 100 of them"),
        }

    def _ref(self, name: str) -> Schema:
        return {"$ref": f"{self._at}{name}"}

    # ── the job ──────────────────────────────────────────────────────────────────────────────────────────────

    def _job(self) -> Schema:
        tasks = self._tasks()
        has_schedule = {"anyOf": [_has("schedule"), _has("schedules")]}
        return _object(
            _described(key_docs.JOB, {**self._options(), **self._when(), **tasks}),
            required=("name",),
            oneOf=[_branch(kind, tasks) for kind in _GOES_WITH],
            description="A job: its name, what it runs, and when.",
            dependentSchemas={
                **dict.fromkeys(("run_once", "is_recurring", "tz"), has_schedule),
                "schedules": {"not": _has("schedule")},
            },
        )

    def _when(self) -> dict[str, Schema]:
        one = self._ref("schedule")
        several = _list(one, most=MOST_SCHEDULES)
        return {
            "schedule": _either(one, several),
            "schedules": several,
            "run_once": _FLAG,
            "is_recurring": _FLAG,
            "tz": {"type": "string"},
        }

    def _schedule(self) -> Schema:
        local, flag = whole(LOCAL, EXPECTED["at"]), _FLAG
        shared: dict[str, Schema] = {"args": self._ref("args"), "id": whole("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")}
        bounded = {"start": local, "end": local, "max_count": _number(1, MOST), "run_once": flag}
        jitter = {"jitter": self._ref("length")}
        tz: dict[str, Schema] = {"tz": {"type": "string"}}
        clocks = {"gap": _choice("run_after", "skip"), "fold": _choice("first", "second", "both")}
        more: dict[str, dict[str, Schema]] = {
            "cron": {**tz, **clocks, **bounded, **jitter, "seconds": flag}, "every": {**tz, **bounded, **jitter},
            "at": {**tz, **jitter}, "in": {**tz, **jitter}, "gap": tz,
        }  # fmt: skip
        forms = {form: whole(pattern, EXPECTED[form]) for form, pattern in FORMS.items()}
        forms["at"] = _either(forms["at"], _list(local, least=1, most=1000))
        both = {"max_count": {"not": {"properties": {"run_once": _TRUE}, "required": ["run_once"]}}}
        return _either(
            SCHEDULE_LINE,
            *(
                _object(
                    _described(
                        {**key_docs.SCHEDULE, form: key_docs.FORMS[form]}, {form: forms[form], **more[form], **shared}
                    ),
                    required=(form,),
                    dependentSchemas=both,
                )
                for form in forms
            ),
        )

    def _options(self) -> dict[str, Schema]:
        name, length = self._ref("name"), self._ref("length")
        parents = _list(name, least=1, most=MOST_PARENTS, uniqueItems=True)
        parent = {"jobs": _either(name, parents), "any": _FLAG, "on": _choice(*get_args(On))}
        after = _object(_described(key_docs.AFTER, parent), required=("jobs",))
        catch_up = _choice(*get_args(CatchUpMode))
        window = {"mode": catch_up, "limit": _number(1, 1000), "window": length}
        most, key, text = _number(1, _MILLION), {"type": "string"}, {"type": "string"}
        limit = {"most": most, "key": key, "name": key}
        rate = {"most": most, "per": length, "burst": most, "key": key, "name": key}
        return {
            "name": name,
            "namespace": name,
            "queue": name,
            "owner": {"type": "string", "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"},
            "after": _either(name, parents, after),
            "args": self._ref("args"),
            "params": self._params(),
            "guarantee": _choice(*Guarantee),
            "catch_up": _either(catch_up, _object(_described(key_docs.CATCH_UP, window), required=("mode",))),
            "overlap": _overlap(),
            "concurrency": _either(most, _object(_described(key_docs.CONCURRENCY, limit), required=("most",))),
            "rate": _either(
                most,
                whole(f"([1-9][0-9]{{0,5}}|1000000)/({DURATION})"),
                _object(_described(key_docs.RATE, rate), required=("most",)),
            ),
            "retry": self._retry(),
            "timeout": length,
            "max_recoveries": _number(0),
            "priority": _choice(*PRIORITIES),
            "labels": _list(whole(LABEL.pattern), most=MOST_LABELS, uniqueItems=True),
            "on": _choice("any", "all"),
            "share": text,
            "isolation": _choice(*LEVELS),
            "assignment": _choice("worker", "leader"),
            "bounds": self._bounds(),
            "paused": _either(
                _FLAG, _object(_described(key_docs.PAUSED, dict(zip(PAUSE, self._pause(), strict=True))))
            ),
        }

    def _pause(self) -> tuple[Schema, Schema]:
        return {**self._line, "maxLength": MOST_REASON}, whole(INSTANT, "a point in time such as '2027-01-01T09:00Z'")

    def _retry(self) -> Schema:
        attempts, length = _number(1, 1000), self._ref("length")
        kinds = _list(_either({"type": "integer"}, {"type": "string"}))
        names = {
            "attempts": attempts, "backoff": _choice(*get_args(Backoff)), "delay": length, "max_delay": length,
            "jitter": _FLAG, "on": kinds, "on_timeout": _FLAG, "when": {"type": "string"},
        }  # fmt: skip
        return _either(attempts, _object(_described(key_docs.RETRY, names)))

    def _bounds(self) -> Schema:
        kinds: dict[str, Schema] = {"cpu": self._ref("length"), "processes": _number(1), "files": _number(1)}
        known = {one.name: kinds.get(one.name, self._ref("size")) for one in fields(Bounds)}
        bounds = {name: one if name == "output" else _or_null(one) for name, one in known.items()}
        return _object(_described(key_docs.BOUNDS, bounds))

    def _params(self) -> Schema:
        value: Schema = {"type": ["string", "number", "boolean", "null"]}
        choice: Schema = {"type": ["string", "number", "boolean"]}
        known = {"kind": _choice(*_KINDS), "default": value, "choices": _list(choice), "required": _FLAG}
        known["pattern"] = {"type": "string", "maxLength": MOST_PATTERN}
        declared = _either(value, _object(_described(key_docs.PARAM, known)))
        by_name: Schema = {
            "type": "object", "maxProperties": 100, "propertyNames": {"pattern": f"^{_PARAM}$"},
            "additionalProperties": declared,
        }  # fmt: skip
        listed = _described(key_docs.PARAM, {"name": whole(_PARAM), **known})
        return _either(by_name, _list(_object(listed, required=("name",)), most=100))

    # ── what is to be done ───────────────────────────────────────────────────────────────────────────────────

    def _tasks(self) -> dict[str, Schema]:
        text = self._text
        git = {"type": "string", "maxLength": 2_000, "pattern": "^((https|ssh|file)://|[A-Za-z0-9_.]+@)[^\\s]+$"}
        checkout = {"git": git, "ref": whole(REF.pattern), "key": whole(KEY.pattern)}
        source = _object(_described(key_docs.SOURCE, checkout), required=("git",))
        usual = _list(_choice(*dict.fromkeys(word for words in FORMATS.values() for word in words)), least=1)
        return {
            **self._command(),
            "stdin": text,
            "steps": _list(self._ref("step"), least=1, most=MOST_STEPS),
            "source": _either(git, source),
            "artifacts": _list({"type": text["type"], "minLength": 1, "maxLength": 200}, most=MOST_PATTERNS),
            "url": git,
            "task": _either({"type": "string"}, usual),
            "format": _choice(*FORMATS),
            "ref": whole(REF.pattern),
            "call": {"type": "string", "minLength": 1},
            "sleep": self._ref("delay"),
            "noop": _TRUE,
            "http": self._http(),
            "container": self._container(),
        }

    def _command(self) -> dict[str, Schema]:
        some = {**self._text, "minLength": 1}
        words: Schema = _list(self._text, least=1, most=MOST_WORDS)
        path = {"type": "string", "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"}
        return {
            "run": some, "argv": words, "command": _either(some, words), "shell": _FLAG, "directory": path,
            "env": self._ref("env"),
        }  # fmt: skip

    def _step(self) -> Schema:
        tries, delay = _number(1, MOST_TRIES), self._ref("delay")
        when = _choice(*get_args(When), *(f"{word}()" for word in get_args(When)))
        names = {
            **self._command(),
            "name": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "[A-Za-z0-9]"},
            "if": when,
            "when": when,
            "timeout": self._ref("length"),
            "retry": _either(tries, _object(_described(key_docs.STEP_RETRY, {"attempts": tries, "delay": delay}))),
            "attempts": tries,
            "delay": delay,
        }
        return _object(
            _described(key_docs.STEP, names),
            description="One of several programs that share a workspace.",
            oneOf=[{"required": [way]} for way in ("run", "argv", "command")],
        )

    def _env(self) -> Schema:
        names = {"pattern": f"^{VARIABLE.pattern}$", "not": {"pattern": "^OTD_"}}
        return {
            "description": "Environment variables by name.",
            "type": "object", "maxProperties": 500, "propertyNames": names, "additionalProperties": self._line,
        }  # fmt: skip

    def _http(self) -> Schema:
        url: Schema = {"type": "string", "pattern": "^https?://[^\\s/?#@:]+"}
        header = {"type": self._line["type"], "pattern": "^[\\t\\u0020-\\u007e\\u0080-\\u00ff]*$"}
        headers = {
            "type": "object", "maxProperties": MOST_HEADERS, "propertyNames": {"pattern": f"^{HEADER.pattern}$"},
            "additionalProperties": header,
        }  # fmt: skip
        status = _number(200, 599)
        names = dict(zip(HTTP, (url, _choice(*METHODS), headers, {}, _either(status, _list(status))), strict=True))
        with_body = _choice(*(method for method in METHODS if method not in ("GET", "HEAD")))
        needs = {"body": {"required": ["method"], "properties": {"method": with_body}}}
        return _either(url, _object(_described(key_docs.HTTP, names), required=("url",), dependentSchemas=needs))

    def _container(self) -> Schema:
        image, path = whole(IMAGE.pattern), whole(_PATH)
        places = _described(key_docs.MOUNT, {"source": path, "target": path, "writable": _FLAG})
        mount = _object(places, required=("source", "target"))
        network: Schema = {**whole(NETWORK.pattern), "not": {"enum": ["host", "slirp4netns", "pasta"]}}
        words = _list(self._text)
        kinds = (image, words, self._ref("env"), network, _list(mount), whole(USER.pattern), self._text)
        names = _described(key_docs.CONTAINER, dict(zip(CONTAINER, kinds, strict=True)))
        return _either(image, _object(names, required=("image",)))


_PROGRAM = ("shell", "directory", "env", "stdin")
_GOES_WITH: dict[str, tuple[str, ...]] = {
    "run": _PROGRAM, "argv": _PROGRAM, "command": _PROGRAM, "steps": ("source", "artifacts", "env"),
    "url": ("task", "format", "ref", "artifacts", "env"), "call": (), "sleep": (), "noop": (), "http": (),
    "container": (),
}  # fmt: skip
"""By kind of task: the keys that may be beside it."""


def _branch(kind: str, tasks: dict[str, Schema]) -> Schema:
    """The branch of one kind of task: no key of another kind."""
    others = [key for key in tasks if key != kind and key not in _GOES_WITH[kind]]
    return {"required": [kind], "properties": dict.fromkeys(others, False)}


def _overlap() -> Schema:
    def mode(*modes: str, **more: Schema) -> Schema:
        names = _described(key_docs.OVERLAP, {"mode": _choice(*modes), **more})
        names["mode"]["examples"] = list(modes)
        return _object(names, required=("mode",))

    return _either(
        _choice("wait", "skip", "allow", "replace"),
        mode("wait", max_waiting=_number(0, _MILLION)),
        mode("allow", max_running=_number(1, _MILLION)),
        mode("skip", "replace"),
    )
