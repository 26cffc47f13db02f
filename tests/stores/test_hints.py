"""What every listener does, with a made-up server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from onthedot.stores import hints
from onthedot.stores.hints import KINDS, BaseListener, Hints
from tests.stores.loops import look_until


class Listener(BaseListener):
    """Plays one scene after the other; the last one goes on for ever."""

    trouble = (OSError,)

    def __init__(self, *scenes: Exception) -> None:
        super().__init__("me", Hints())
        self.heard: list[str] = []
        self._hints.listen(lambda hint: self.heard.append(hint.kind))
        self.scenes = list(scenes)
        self.connected = 0
        self.stubborn = False

    async def _listen_once(self, *, missed: bool) -> None:
        self._is_listening(missed=missed)
        self.connected += 1
        if self.scenes:
            raise self.scenes.pop(0)
        if self.stubborn:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()


async def started(listener: Listener, connections: int = 1) -> Listener:
    listener.start()
    await look_until(lambda: listener.connected >= connections, "it to listen")
    return listener


async def test_hints_of_others_are_passed_on_and_ones_own_are_not():
    listener = await started(Listener())
    listener._heard("me", ["runs"])
    listener._heard("other", ["terms", "runs", "unheard of"])
    assert listener.heard == ["runs", "terms"]
    await listener.close()


async def test_who_lost_its_server_listens_again_and_has_everybody_look(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hints, "LONGEST_PAUSE", 0.0)
    listener = await started(Listener(OSError("gone"), OSError("gone")), connections=3)
    assert listener.heard == [*KINDS, *KINDS]  # once for each time that it was away
    assert listener.listening.is_set()
    await listener.close()


async def test_a_cancellation_that_was_swallowed_is_said_again():
    listener = Listener()
    listener.stubborn = True
    await started(listener)
    await asyncio.wait_for(listener.close(), 10)
    await listener.close()


async def test_a_bug_is_told_when_it_is_closed():
    listener = await started(Listener(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        await listener.close()


async def test_one_that_was_never_started_is_closed():
    await Listener().close()
