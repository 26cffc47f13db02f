"""The common part of all hint listeners, with a fake server."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from onthedot.stores import hints
from onthedot.stores.hints import KINDS, BaseListener, Hint, Hints
from tests.stores.loops import look_until


class FakeListener(BaseListener):
    """Raises one error per connection, then listens for ever."""

    trouble = (OSError,)

    def __init__(self, *errors: Exception) -> None:
        super().__init__("me", Hints())
        self.heard: list[str] = []
        self._hints.listen(lambda hint: self.heard.append(hint.kind))
        self.errors = list(errors)
        self.connected = 0
        self.stubborn = False

    async def _listen_once(self, *, missed: bool) -> None:
        self._is_listening(missed=missed)
        self.connected += 1
        if self.errors:
            raise self.errors.pop(0)
        if self.stubborn:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()


async def started(listener: FakeListener, connections: int = 1) -> FakeListener:
    listener.start()
    await look_until(lambda: listener.connected >= connections, "it to listen")
    return listener


async def test_hints_of_others_are_passed_on_and_own_hints_are_not():
    listener = await started(FakeListener())
    listener._heard("me", ["runs"])
    listener._heard("other", ["terms", "runs", "unheard of"])
    assert listener.heard == ["runs", "terms"]
    await listener.close()


async def test_a_listener_that_lost_its_server_reconnects_and_sends_all_hints(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hints, "LONGEST_PAUSE", 0.0)
    listener = await started(FakeListener(OSError("gone"), OSError("gone")), connections=3)
    assert listener.heard == [*KINDS, *KINDS]  # once after each loss
    assert listener.listening.is_set()
    await listener.close()


async def test_a_swallowed_cancellation_is_repeated():
    listener = FakeListener()
    listener.stubborn = True
    await started(listener)
    await asyncio.wait_for(listener.close(), 10)
    await listener.close()


async def test_an_unexpected_error_is_raised_at_the_close():
    listener = await started(FakeListener(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        await listener.close()


async def test_a_listener_that_was_never_started_can_be_closed():
    await FakeListener().close()


async def test_a_hint_of_another_loop_is_heard_on_the_loop_of_the_listener():
    sent, heard = Hints(), []
    sent.listen(lambda hint: heard.append((hint.kind, threading.current_thread())))

    async def send() -> None:
        sent.send(Hint("runs", 0))

    await asyncio.to_thread(lambda: asyncio.run(send()))
    await look_until(lambda: bool(heard), "the hint")
    assert heard == [("runs", threading.current_thread())]


def test_a_hint_for_a_loop_that_was_closed_is_dropped():
    sent = Hints()

    async def listen() -> None:
        sent.listen(lambda hint: pytest.fail("nobody listens any more"))

    asyncio.run(listen())
    sent.send(Hint("runs", 0))
