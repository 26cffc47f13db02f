"""Imports Kubernetes CronJobs as jobs that run a container.

As in Kubernetes, a missed start is made up for once; with `startingDeadlineSeconds` only within that time. A
time that a clock change leaves out does not run, and one that it repeats runs twice. There is a remark for what
a cluster gives to a pod (volumes, accounts, neighbours): a container here has its image, its arguments, its
environment and a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from onthedot.define.importers.cron_dialects import from_kubernetes, with_clock_rules
from onthedot.define.importers.import_result import ImportResult, as_it_is
from onthedot.define.yaml_text import Node, WrongText, read_nodes, shown

_SEPARATOR = re.compile(r"^(?:---|\.\.\.)[ \t\r]*(?:#.*)?$", re.MULTILINE)
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
_EVERY = re.compile(r"@every\s+(\S+)")
_OVERLAP = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
_QUANTITY = re.compile(r"([0-9]+)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_VARIABLE = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")
_HELM = re.compile(
    r"\{\{-?\s*(?:\.(?:Values|Release|Chart|Capabilities|Files|Template)\b"
    r"|(?:include|template|tpl|toYaml|range|if|with|end|define|else)\b|\$|/\*)"
)

_JOB = ("schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds", "jobTemplate")
_TEMPLATE = ("template", "backoffLimit", "activeDeadlineSeconds")
_POD = ("containers", "restartPolicy", "volumes", "securityContext")
_CONTAINER = ("name", "image", "command", "args", "env", "resources", "volumeMounts", "securityContext")
_WHY = {
    "successfulJobsHistoryLimit": "history is kept as the store's retention says",
    "failedJobsHistoryLimit": "history is kept as the store's retention says",
    "ttlSecondsAfterFinished": "history is kept as the store's retention says",
    "imagePullPolicy": "an image is pulled if the worker has none",
    "envFrom": "name each variable in env, and secrets as ${{ secrets.NAME }}",
    "nodeSelector": "say 'labels' that the right workers offer",
    "initContainers": "make them jobs of their own, and run this one after them",
    "parallelism": "a slot is one run here",
    "completions": "a slot is one run here",
}


def read_cron_jobs(text: str, file: str = "cronjob.yaml", *, tz: str = "UTC") -> ImportResult:
    """The jobs of a file with one or more manifests.

    >>> text = '''
    ... kind: CronJob
    ... metadata: {name: report}
    ... spec:
    ...   schedule: "0 2 * * *"
    ...   concurrencyPolicy: Forbid
    ...   jobTemplate: {spec: {backoffLimit: 0, template: {spec: {containers: [{image: "alpine:3", args: [date]}]}}}}
    ... '''
    >>> [job] = read_cron_jobs(text).jobs
    >>> job.name, job.task.image, job.task.argv, job.overlap.mode
    ('report', 'alpine:3', ('date',), 'skip')
    """
    found = ImportResult(file)
    helm = _HELM.search(text)
    if helm is not None:
        line = text.count("\n", 0, helm.start()) + 1
        found.lose(line, f"'{helm[0]}…': this is a Helm template: run 'helm template' first, and import what it writes")
        return found
    for document in _documents(text):
        try:
            node = read_nodes(document, file)
        except WrongText as error:
            found.remarks += error.told
            found.lost += error.told
            continue
        for manifest in _manifests(node):
            _read(found, manifest, tz)
    return found


def _documents(text: str) -> Iterator[str]:
    """Each in its place: lines count from the beginning of the file."""
    begin = 0
    for mark in [*_SEPARATOR.finditer(text), None]:
        end = len(text) if mark is None else mark.start()
        document = text[begin:end]
        if re.search(r"^\s*[^#\s]", document, re.MULTILINE):
            yield "\n" * text.count("\n", 0, begin) + document
        begin = end if mark is None else mark.end()


def _manifests(node: Node) -> Iterator[Node]:
    items = _at(node, "items")
    if items is not None and items.items is not None:
        yield from items.items
    else:
        yield node


def _at(node: Node | None, path: str) -> Node | None:
    for name in path.split("."):
        node = (node.names or {}).get(name) if node is not None else None
    return node


def _value(node: Node | None, path: str, default: Any = None) -> Any:
    found = _at(node, path)
    return default if found is None else found.value


def _read(found: ImportResult, manifest: Node, tz: str) -> None:
    line, kind = manifest.at.line, _value(manifest, "kind")
    if kind != "CronJob":
        found.remark(line, f"expected a CronJob, got {kind if isinstance(kind, str) else shown(manifest)}; not kept")
        return
    spec, template = _at(manifest, "spec"), _at(manifest, "spec.jobTemplate.spec")
    pod = _at(template, "template.spec")
    containers = _at(pod, "containers")
    if spec is None or template is None or pod is None or containers is None or not containers.items:
        found.lose(line, "expected spec.schedule and a container in spec.jobTemplate, found none")
        return
    _rest(found, spec, _JOB)
    _rest(found, template, _TEMPLATE)
    _rest(found, pod, _POD)
    _rest(found, containers.items[0], _CONTAINER)
    for other in containers.items[1:]:
        found.remark(other.at.line, "a second container of the pod: one job is one container; not kept")
    job: dict[str, Any] = {
        "name": str(_value(manifest, "metadata.name", "")),
        "namespace": _value(manifest, "metadata.namespace", "default"),
        "paused": {"reason": "suspended in Kubernetes"} if _value(spec, "suspend") is True else None,
        "schedule": _schedule(found, spec, tz),
        "overlap": _OVERLAP.get(_value(spec, "concurrencyPolicy", "Allow"), "allow"),
        "container": _container(found, containers.items[0], pod),
        "bounds": _bounds(found, containers.items[0]),
        **_policies(found, spec, template),
    }
    found.add(line, job)


def _rest(found: ImportResult, node: Node, known: tuple[str, ...]) -> None:
    """Add remarks for the keys that nobody reads."""
    for name, at in node.places.items():
        if name not in known:
            found.remark(at.line, f"{name}: {_WHY.get(name, 'there is no such thing here')}; not kept")


def _schedule(found: ImportResult, spec: Node, tz: str) -> Any:
    text = str(_value(spec, "schedule", ""))
    zone = _value(spec, "timeZone")
    written = _ZONE.fullmatch(text)
    if written is not None:
        zone, text = written[1], written[2]
    line = spec.places["schedule"].line if "schedule" in spec.places else spec.at.line
    every = _EVERY.fullmatch(text)
    if every is not None:
        found.remark(line, f"'{text}': here counted from 1970-01-01, not from the last start")
        return f"every {every[1]}"
    found.zone_assumed |= zone is None
    translated = from_kubernetes(text)
    for note in translated.notes:
        found.remark(line, note)
    return with_clock_rules({"cron": translated.expression, "tz": str(zone or tz)}, gap="skip", fold="both")


def _policies(found: ImportResult, spec: Node, template: Node) -> dict[str, Any]:
    deadline = _value(spec, "startingDeadlineSeconds")
    limit = _value(template, "backoffLimit", 6)
    active = _value(template, "activeDeadlineSeconds")
    if active is not None:
        found.remark(
            template.places["activeDeadlineSeconds"].line, "activeDeadlineSeconds counts for each attempt here"
        )
    tries = limit + 1 if type(limit) is int and 0 <= limit < 1_000 else 1
    return {
        "catch_up": {"mode": "all", "limit": 1, "window": f"{deadline}s"} if deadline else None,
        "retry": {"attempts": tries, "delay": "10s", "max_delay": "6m"} if tries > 1 else None,
        "timeout": f"{active}s" if active else None,
    }


# ── the container ────────────────────────────────────────────────────────────────────────────────────────────


def _container(found: ImportResult, node: Node, pod: Node) -> dict[str, Any]:
    command, args = _value(node, "command") or [], _value(node, "args") or []
    words = [str(word) for part in (command, args) if isinstance(part, list) for word in part]
    env, known = _env(found, node)
    words = [_filled(found, node, word, known) for word in words]
    entrypoint = words.pop(0) if isinstance(command, list) and command else ""  # without it: the image's own
    given = {
        "image": str(_value(node, "image", "")),
        "entrypoint": as_it_is(entrypoint),
        "argv": [as_it_is(word) for word in words],
        "env": env,
        "network": "bridge",
        "user": _user(node, pod),
        "mounts": list(_mounts(found, node, pod)),
    }
    return {key: value for key, value in given.items() if value}


def _filled(found: ImportResult, node: Node, text: str, known: Mapping[str, str | None]) -> str:
    """A text with its `$(NAME)`, as Kubernetes fills them in. What is not known stays as it is."""

    def value(match: re.Match[str]) -> str:
        name = match[2]
        if name is None:  # '$$(NAME)' is no reference
            return "$"
        there = known.get(name)
        if there is not None:
            return there
        if name in known or "envFrom" in (node.names or {}) or name.isupper():  # '$(date)' is for a shell
            found.complete(node.at.line, f"$({name}): its value is not in this file: write it in its place")
        return match[0]

    return _VARIABLE.sub(value, text)


def _env(found: ImportResult, node: Node) -> tuple[dict[str, str], dict[str, str | None]]:
    """The variables for the job; and the values that are known here, None for those that are not."""
    env: dict[str, str] = {}
    known: dict[str, str | None] = {}
    listed = _at(node, "env")
    for one in (listed.items or []) if listed is not None else []:
        name, text = str(_value(one, "name", "")), _at(one, "value")
        secret = _value(one, "valueFrom.secretKeyRef")
        if text is not None and text.text is not None:
            known[name] = _filled(found, node, text.text, known)
            env[name] = as_it_is(known[name] or "")
        elif isinstance(secret, Mapping):
            ours = re.sub(r"\W", "_", f"{secret.get('name', '')}_{secret.get('key', '')}".upper())
            env[name], known[name] = f"${{{{ secrets.{ours} }}}}", None
            found.remark(one.at.line, f"{name}: set the secret with 'onthedot secret set {ours}'")
        else:
            known[name] = None
            found.remark(one.at.line, f"{name}: only values and secrets are known here; not kept")
    return env, known


def _user(node: Node, pod: Node) -> str:
    user, group = (
        _value(node, f"securityContext.{key}", _value(pod, f"securityContext.{key}"))
        for key in ("runAsUser", "runAsGroup")
    )
    if type(user) is not int:
        return ""
    return f"{user}:{group}" if type(group) is int else str(user)


def _mounts(found: ImportResult, node: Node, pod: Node) -> Iterator[dict[str, Any]]:
    volumes, mounts = _at(pod, "volumes"), _at(node, "volumeMounts")
    paths = {
        str(_value(one, "name")): _value(one, "hostPath.path")
        for one in ((volumes.items or []) if volumes is not None else [])
    }
    for one in (mounts.items or []) if mounts is not None else []:
        path, target = paths.get(str(_value(one, "name"))), _value(one, "mountPath")
        if isinstance(path, str) and isinstance(target, str):
            yield {"source": path, "target": target, "writable": _value(one, "readOnly") is not True}
        else:
            found.remark(one.at.line, f"the volume {_value(one, 'name')!r} is no directory of the machine; not kept")


def _bounds(found: ImportResult, node: Node) -> dict[str, Any]:
    resources = _at(node, "resources")
    if resources is None:
        return {}
    if _at(resources, "limits.cpu") is not None or _at(resources, "requests") is not None:
        found.remark(resources.at.line, "resources: only limits.memory is known here; the rest is not kept")
    memory = _QUANTITY.fullmatch(str(_value(resources, "limits.memory", "")))
    if memory is None:
        return {}
    unit = memory[2] or ""
    return {"memory": int(memory[1]) * _DECIMAL[unit] if unit in _DECIMAL else f"{memory[1]}{unit.rstrip('i')}"}
