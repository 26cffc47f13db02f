"""What a child process says while its handler runs, brought to the worker's desk.

Nothing that it says is trusted: what is not one of a few plain shapes, or too large, ends the child. The worker's other
threads never wait for a child: an answer that it does not take ends it, too.
"""

from __future__ import annotations

import json
from concurrent.futures import CancelledError, Future
from typing import Any

from onthedot.model.errors import LeaseLost, OnTheDotError
from onthedot.model.run import Checkpoint, Lease, Progress
from onthedot.model.verdict import Outcome
from onthedot.runners.attempt import Attempt
from onthedot.runners.child import Child
from onthedot.runners.child_messages import outcome_from_json
from onthedot.runners.frames import BadFrame
from onthedot.runners.notes import CHECKPOINT_LIMIT, LOG_LIMIT, Notes
from onthedot.stores.values import Note

_MOST_LOG = LOG_LIMIT + 1_000  # with the line that says how much is left out
_LARGEST_REVISION = 1 << 62


class RelayedNotes(Notes):
    """The notes of an attempt in a child: its newest words, as they came."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease)
        self._text: str | None = None

    def hear(self, progress: Progress | None, log: str | None) -> bool:
        """Remember what came; whether this is the first news since the last `take`."""
        with self._lock:
            self._progress, self._text = progress, log
            return self._is_first()

    def take(self) -> Note:
        return super().take()._replace(log=self._text)


class Relay:
    """One attempt's words, on the thread that waits for its child."""

    def __init__(self, attempt: Attempt, child: Child) -> None:
        self._attempt = attempt
        self._child = child
        self._notes = RelayedNotes(attempt.lease)
        self._asked: Future[None] | None = None

    def outcome(self) -> Outcome:
        """Pass on what the child says, until it says how it ended. `ChildGone` or `BadFrame` if it does not."""
        while True:
            match self._child.answer():
                case {"note": [progress, (None | str()) as log]}:
                    self._note(_progress(progress), log)
                case {"checkpoint": [int(revision), str(value)]}:
                    self._save(revision, value)
                case other:
                    if self._asked is not None and not self._asked.done():
                        raise BadFrame("expected it to wait for its answer")
                    return outcome_from_json(other.get("outcome"))

    def _note(self, progress: Progress | None, log: str | None) -> None:
        if log is not None and len(log) > _MOST_LOG:
            raise BadFrame(f"expected a log of at most {_MOST_LOG} characters, got {len(log)}")
        if self._notes.hear(progress, log) and self._attempt.desk is not None:
            self._attempt.desk.noted(self._notes)

    def _save(self, revision: int, value: str) -> None:
        if self._asked is not None and not self._asked.done():
            raise BadFrame("expected one question at a time")
        if not 0 < revision < _LARGEST_REVISION or not _is_checkpoint(value):
            raise BadFrame(f"expected a checkpoint, got {value[:100]!r}")
        desk = self._attempt.desk
        if desk is None:
            self._child.reply({"failed": "this attempt has no desk: there is nothing to keep its words with"})
            return
        try:
            self._asked = desk.checkpoint(self._attempt.lease, Checkpoint(revision, value))
        except LeaseLost as error:
            self._child.reply({"lost": str(error)})
            return
        self._asked.add_done_callback(self._answer)

    def _answer(self, saved: Future[None]) -> None:
        """On the engine's thread, as a rule."""
        try:
            saved.result()
        except CancelledError:
            self._child.reply({"lost": "its node has stopped; another attempt goes on from its last checkpoint"})
        except LeaseLost as error:
            self._child.reply({"lost": str(error)})
        except OnTheDotError as error:
            self._child.reply({"failed": str(error)})
        else:
            self._child.reply({"saved": True})


def _progress(told: Any) -> Progress | None:
    match told:
        case None:
            return None
        case [int() | float() as done, (None | int() | float()) as of]:
            return Progress(done, of)
    raise BadFrame(f"expected progress, got {str(told)[:100]!r}")


def _is_checkpoint(value: str) -> bool:
    if len(value) > CHECKPOINT_LIMIT:
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True
