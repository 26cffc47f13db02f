"""`Action`: what users and programs ask of the cluster, as data. `Client` performs one as a client would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from onthedot.clock import SECOND, Clock
from onthedot.model.errors import (
    DefinitionError,
    KeyConflict,
    SlotSettled,
    StoreUnavailable,
    UnknownJob,
    UnknownSlot,
    did_you_mean,
)
from onthedot.model.job import JobRecord
from onthedot.model.run import LIVE, NewRun, manual_trigger, submit_trigger
from onthedot.operations.move_slot import move_next_slot
from onthedot.operations.put_job import resume_job
from onthedot.rules.windows import Missed
from onthedot.settings import Settings
from onthedot.stores.protocol import Store
from onthedot_verify.checker import Journal
from onthedot_verify.simulation.chance import Chance

_MISSED: tuple[Missed, ...] = ("none", "last", "all")
_TENANTS = ("t1", "t2")
KINDS = (
    *("submit", "trigger", "put", "read", "cancel", "pause", "resume", "move", "delete", "layout"),
    *("stop_queue", "open_queue", "share", "unshare", "drain", "undrain"),
)


@dataclass(frozen=True, slots=True)
class Action:
    """A request of a user or a program to a node, `at` seconds after the beginning.

    | kind | what it asks for |
    |---|---|
    | submit, trigger | a run after `delay`, with `tenant`, under `key`, that expires after `expires` seconds |
    | put | the job's next definition |
    | read, cancel | one of the newest submitted runs; one of the live runs |
    | pause | a pause of `delay` seconds (0: until a resume) |
    | resume | a resume with `missed`; `preview`: a dry run first |
    | move | a move of the job's next slot by `delay` seconds; it is never repeated |
    | delete | the end of the job; a `put`, or a node that boots, creates it again |
    | layout | another number of shards, up to 8, by `luck` |
    | stop_queue, open_queue, share, unshare | the queue of that name |
    | drain, undrain | the node of that name |

    `luck`, in [0, 1), chooses one of several.

    >>> from onthedot_verify.simulation import Action
    >>> asked = Action(at=30, kind="submit", node=0, job="mail", key="order 7")
    >>> again = Action(at=31, kind="submit", node=1, job="mail", key="order 7")  # on another node: still one run
    >>> Action(at=30, kind="stop", node=0, job="mail")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: kind of an action: expected a known kind, got 'stop'...
    """

    at: float
    kind: str
    node: int
    job: str
    delay: float = 0.0
    key: str = ""
    tenant: str = ""
    expires: float = 0.0
    missed: Missed = "none"
    preview: bool = False
    luck: float = 0.0

    def __post_init__(self) -> None:
        """An unknown kind would do nothing, and its test would always pass."""
        if self.kind not in KINDS:
            hint = did_you_mean(self.kind, KINDS)
            raise DefinitionError(f"kind of an action: expected a known kind, got {self.kind!r}{hint}")


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────


def draw_actions(
    seed: str, names: Sequence[str], puts: Sequence[tuple[float, str]], nodes: int, seconds: float
) -> tuple[Action, ...]:
    """Some 150 actions an hour. Each kind has its own source of chance, so more draws of one kind do not change
    another."""
    chance = Chance(f"{seed} actions")
    found = [Action(at + chance.between(0, 20), "put", chance.whole(nodes), name) for at, name in puts]
    found += draw_submits(Chance(f"{seed} submits"), names, nodes, seconds)
    found += draw_controls(Chance(f"{seed} controls"), names, nodes, seconds)
    found += _places(Chance(f"{seed} places"), nodes, seconds)
    return tuple(sorted(found, key=lambda action: (action.at, action.kind, action.job)))


def draw_layouts(seed: str, nodes: int, seconds: float, every: float) -> tuple[Action, ...]:
    """Changes of the layout, one every so many seconds on average."""
    chance = Chance(f"{seed} layouts")
    found = []
    when = chance.between(0, every)
    while when < seconds:
        found.append(Action(round(when, 3), "layout", chance.whole(nodes), "", luck=chance.fraction()))
        when += chance.between(0, 2 * every)
    return tuple(found)


def draw_submits(
    chance: Chance, names: Sequence[str], nodes: int, seconds: float, *, every: float = 100
) -> list[Action]:
    """Submits of these jobs, some under a key, and reads. There are two submits within `every` seconds on average."""
    found: list[Action] = []
    used: list[Action] = []  # with a key
    when = chance.between(0, every)
    while when < seconds:
        delay = chance.choice((0.0, 0.0, chance.between(0, 5), chance.between(5, 60)))
        expires = chance.choice((0.0, 0.0, chance.between(0.5, 30)))
        kind = "trigger" if chance.fraction() < 0.2 else "submit"
        facts: dict[str, Any] = {"job": chance.choice(names), "tenant": chance.choice(("", *_TENANTS))}
        if kind == "submit" and chance.fraction() < 0.5:
            if used and chance.fraction() < 0.6:
                known = chance.choice(used[-5:])
                facts = {"job": known.job, "key": known.key, "tenant": known.tenant}
                if chance.fraction() < 0.25:
                    facts["tenant"] = "another"
            else:
                facts["key"] = f"k{len(found)}"
        action = Action(
            round(when, 3), kind, chance.whole(nodes), delay=round(delay, 3), expires=round(expires, 3), **facts
        )
        found.append(action)
        if action.key and action.tenant != "another":
            used.append(action)
        found.append(
            Action(round(when + chance.between(0, 60), 3), "read", chance.whole(nodes), "", luck=chance.fraction())
        )
        when += chance.between(0, every)
    return found


def draw_controls(
    chance: Chance, names: Sequence[str], nodes: int, seconds: float, *, every: float = 120
) -> list[Action]:
    """Pauses and resumes, deletes and new definitions of these jobs, and cancels of runs. There are two within `every`
    seconds on average."""
    found = []
    when = chance.between(0, every)
    while when < seconds:
        at, node, job, luck = round(when, 3), chance.whole(nodes), chance.choice(names), chance.fraction()
        later = round(when + chance.between(5, 180), 3)
        draw = chance.fraction()
        if draw < 0.5:
            found.append(Action(at, "cancel", node, "", luck=luck))
        elif draw < 0.9:
            length = round(chance.between(2, 120), 3) if luck < 0.3 else 0.0
            found.append(Action(at, "pause", node, job, delay=length))
            missed, preview = chance.choice(_MISSED), chance.fraction() < 0.5
            found.append(Action(later, "resume", chance.whole(nodes), job, missed=missed, preview=preview))
        else:
            found.append(Action(at, "delete", node, job))
            found.append(Action(later, "put", chance.whole(nodes), job))
        when += chance.between(0, every)
    return found


def _places(chance: Chance, nodes: int, seconds: float) -> list[Action]:
    """A fair queue from the beginning, which is shared again now and then; queues that stop, and nodes that drain, for
    a while."""
    found = [Action(3.0, "share", 0, "fair")]
    when = chance.between(0, 240)
    while when < seconds:
        at, node, later = round(when, 3), chance.whole(nodes), round(when + chance.between(2, 90), 3)
        first, second, name = chance.choice(
            (
                ("stop_queue", "open_queue", "mail"),
                ("stop_queue", "open_queue", "default"),
                ("drain", "undrain", "c"),
                ("unshare", "share", "fair"),
            )
        )
        found += [Action(at, first, node, name), Action(later, second, chance.whole(nodes), name)]
        when += chance.between(0, 400)
    return found


# ── performing ───────────────────────────────────────────────────────────────────────────────────────────────


class Client:
    """A client that asks a node, and asks again if it gets no answer."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, journal: Journal, submitted: list[int]) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._journal = journal
        self._submitted = submitted

    async def perform(self, action: Action) -> None:
        """Repeat the action until it is answered, for about a minute."""
        due_at = self._clock.now() + round((0 if action.kind == "pause" else action.delay) * SECOND)
        for attempt in range(20):
            try:
                await self._once(action, due_at)
            except StoreUnavailable:
                if action.kind == "move":
                    return  # a repetition would move the slot after it
                await asyncio.sleep(0.2 * (attempt + 1))
            except (UnknownJob, KeyConflict, UnknownSlot, SlotSettled):
                return  # deleted or refused: an answer as well
            else:
                return

    async def _once(self, action: Action, due_at: int) -> None:
        match action.kind:
            case "read":
                if self._submitted:
                    newest = self._submitted[-9:]
                    await self._store.queries.get_run(newest[int(action.luck * len(newest))])
                return
            case "cancel":
                live = await self._store.queries.list_runs(states=LIVE, limit=8)
                if live:
                    await self._store.cancel([live[int(action.luck * len(live))].id], why="by hand")
                return
            case "layout":
                await self._store.set_shards(1 + int(action.luck * 8))
                return
            case "stop_queue":
                await self._store.pause_queue(action.job, reason="by hand")
                return
            case "open_queue":
                await self._store.resume_queue(action.job)
                return
            case "share" | "unshare":
                weights = {"t1": 3} if action.kind == "share" else None
                await self._store.share_queue(action.job, weights)
                return
            case "drain" | "undrain":
                await self._store.drain(action.job, draining=action.kind == "drain")
                return
        record = await self._store.queries.get_job(action.job)
        if record is not None:
            await self._of_job(action, record, due_at)

    async def _of_job(self, action: Action, record: JobRecord, due_at: int) -> None:
        store = self._store
        match action.kind:
            case "submit" | "trigger":
                await self._submit(action, record, due_at)
            case "pause":
                until = self._clock.now() + round(action.delay * SECOND) if action.delay else None
                await store.pause_job(record.id, reason="by hand", until=until)
            case "resume":
                for dry_run in (True, False) if action.preview else (False,):
                    await resume_job(
                        store, record.id, missed=action.missed, clock=self._clock, settings=self._settings,
                        dry_run=dry_run,
                    )  # fmt: skip
            case "move":
                trigger = manual_trigger(f"{action.job}-{action.at}")
                by = timedelta(seconds=action.delay)
                await move_next_slot(store, record.id, slot=None, to=by, trigger=trigger, clock=self._clock)
            case "delete":
                await store.delete_job(record.id)

    async def _submit(self, action: Action, record: JobRecord, due_at: int) -> None:
        token = f"{action.job}-{action.at}"
        trigger = manual_trigger(token) if action.kind == "trigger" else submit_trigger(token)
        args = dict(record.job.args) | {"mark": -1, "tenant": action.tenant} if action.tenant else None
        text = None if args is None else json.dumps(args, sort_keys=True, separators=(",", ":"))
        expires_at = due_at + round(action.expires * SECOND) if action.expires else None
        [run] = await self._store.submit([NewRun(record.id, trigger, due_at, text, action.key, expires_at)])
        name = f"key {action.key}" if action.key else trigger
        self._journal.add("api", "ack", key=f"{record.id}/{name}", run=run)
        self._submitted.append(run)
