"""Decides which step of a run is next, and what follows from the end of a step. Pure.

Each step that ends is a checkpoint. It holds all that another attempt needs to continue, on this machine or another:
which steps are done, which one failed and how, the values they have passed on, and what the current step has saved in
`$OTD_CHECKPOINT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from onthedot.model.run import Lease
from onthedot.model.task import Command, Step, Steps

OUTPUTS_LIMIT = 100
"""How many values one step may pass to later steps."""

VALUE_LIMIT = 4_000
"""How many characters each of them may have."""

TEXT_LIMIT = 16 * 1024
"""How many bytes of `$OTD_CHECKPOINT` are saved."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_RERUN = re.compile(r"rerun:([0-9]+):([0-9]+):.+")


@dataclass(frozen=True, slots=True)
class Failed:
    """How a step failed, in the words of the run's error, and what it had saved: its next try continues from there."""

    step: int
    error: str
    types: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come: the steps that have ended, in order, by name."""

    done: tuple[str, ...] = ()
    failed: Failed | None = None
    outputs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the content of a checkpoint.

        >>> Progress(("build",), outputs={"build": {"image": "a1"}}).to_json()
        {'done': ['build'], 'outputs': {'build': {'image': 'a1'}}}
        """
        data: dict[str, Any] = {"done": list(self.done)}
        if self.failed is not None:
            failed = self.failed
            data["failed"] = {"step": failed.step, "error": failed.error, "types": list(failed.types)}
            if failed.text:
                data["failed"]["text"] = failed.text
        if self.outputs:
            data["outputs"] = {step: dict(values) for step, values in self.outputs.items()}
        if self.text:
            data["text"] = self.text
        return data


def progress_of(saved: Any, steps: Sequence[Step]) -> Progress:
    """Return the progress on these steps by a checkpoint. If it is from another definition, it counts up to the first
    different step.

    >>> progress_of({"done": ["fetch", "build"]}, [Step(name="fetch"), Step(name="test")]).done
    ('fetch',)
    """
    if not isinstance(saved, Mapping) or not isinstance(saved.get("done"), list):
        return Progress()
    names = [step.name for step in steps]
    done = tuple(saved["done"])
    same = next((at for at, name in enumerate(done) if at >= len(names) or name != names[at]), len(done))
    outputs = {step: dict(values) for step, values in saved.get("outputs", {}).items() if step in done[:same]}
    if same < len(done):
        return Progress(done[:same], None, outputs)
    failed = saved.get("failed")
    told = (
        None
        if failed is None
        else Failed(failed["step"], failed["error"], tuple(failed["types"]), failed.get("text", ""))
    )
    return Progress(done, told, outputs, saved.get("text", ""))


def next_step(steps: Sequence[Step], progress: Progress) -> int | None:
    """Return the number of the step that runs next; None if none is left. Steps that `when` excludes are passed over.

    >>> steps = [Step(name="build"), Step(name="tell", when="failure"), Step(name="clean", when="always")]
    >>> next_step(steps, Progress(("build",)))
    2
    """
    wanted = ("success", "always") if progress.failed is None else ("failure", "always")
    return next((at for at in range(len(progress.done), len(steps)) if steps[at].when in wanted), None)


def to_clear_up(steps: Sequence[Step], begun: int) -> list[int]:
    """Return the steps that still run after a time-out or a cancel, when `begun` steps had begun: those that run
    always. Before the first step there is nothing to clear up.

    >>> steps = [Step(name="build"), Step(name="test"), Step(name="clean", when="always")]
    >>> to_clear_up(steps, 1), to_clear_up(steps, 3), to_clear_up(steps, 0)
    ([2], [], [])
    """
    return [at for at in range(begun, len(steps)) if begun and steps[at].when == "always"]


def ended(
    steps: Sequence[Step],
    progress: Progress,
    at: int,
    *,
    failed: Failed | None = None,
    outputs: Mapping[str, str] | None = None,
) -> Progress:
    """Return the progress after this step has ended. The first failure counts."""
    given = {**progress.outputs, steps[at].name: dict(outputs)} if outputs else progress.outputs
    names = tuple(step.name for step in steps[: at + 1])
    told = progress.failed or (failed and replace(failed, text=progress.text))
    return Progress(names, told, given)


def before_failure(progress: Progress) -> Progress:
    """Return the progress with which the next attempt begins: at the step that failed, as if it had not been tried.

    >>> before_failure(Progress(("build", "test", "clean"), Failed(1, "exit code 3"))).done
    ('build',)
    """
    failed = progress.failed
    return progress if failed is None else with_text(from_step(progress, failed.step), failed.text)


def from_step(progress: Progress, at: int) -> Progress:
    """Return the progress as it was before this step began."""
    done = progress.done[:at]
    return Progress(done, None, {step: values for step, values in progress.outputs.items() if step in done})


def with_text(progress: Progress, text: str) -> Progress:
    """Return the progress with the text that the current step has saved."""
    return replace(progress, text=text)


def steps_of(task: Command | Steps) -> tuple[Step, ...]:
    """Return the steps of a task. A command is one step without a name."""
    if isinstance(task, Steps):
        return task.steps
    return (Step(name="", argv=task.argv, script=task.script, directory=task.directory, env=task.env),)


def read_outputs(text: str) -> dict[str, str]:
    """Return the values in a file of `key=value` lines. Other lines, and values beyond the limits, are left out.

    >>> read_outputs("image=a1\\n\\nurl=http://x/?a=b\\nno value\\n")
    {'image': 'a1', 'url': 'http://x/?a=b'}
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals and _KEY.fullmatch(key) and "\0" not in value and (key in found or len(found) < OUTPUTS_LIMIT):
            found[key] = value.rstrip("\r")[:VALUE_LIMIT]
    return found


def handed_on(progress: Progress) -> dict[str, str]:
    """Return the values that earlier steps pass to later ones, as environment variables.

    >>> handed_on(Progress(("Set up",), outputs={"Set up": {"version": "1"}}))
    {'OTD_OUTPUT_SET_UP_VERSION': '1'}
    """
    return {
        f"OTD_OUTPUT_{variable(step)}_{variable(key)}": value
        for step, values in progress.outputs.items()
        for key, value in values.items()
    }


def variable(name: str) -> str:
    """Return a step's name in the form that a variable's name needs.

    >>> variable("Set up Go 1.22")
    'SET_UP_GO_1_22'
    """
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")


def attempts_left(step: Step, tried: int) -> timedelta | None:
    """Return the delay before this step's next try, after `tried` tries; None if it has no tries left."""
    return step.delay if tried < step.attempts else None


def rerun_trigger(run_id: int, at: int, token: str) -> str:
    """Return the trigger of a run that continues from a step of an earlier, ended run."""
    return f"rerun:{run_id}:{at}:{token}"


def rerun_of(lease: Lease) -> tuple[int, int] | None:
    """Return the earlier run, and the step from which this run continues; None for any other trigger."""
    found = _RERUN.fullmatch(lease.trigger)
    return None if found is None else (int(found[1]), int(found[2]))
