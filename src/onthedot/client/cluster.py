"""The verbs about nodes and queues, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from onthedot.client import values
from onthedot.client.asking import Asking
from onthedot.client.values import read
from onthedot.model.errors import UnknownJob
from onthedot.stores.values import Layout, Node, Queue, Term


class ClusterAsked(Asking):
    """See `Verbs`."""

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        told = await self.server.ask("GET", "/api/v1/nodes", query={"all": "true"})
        return [read(values.node, one) for one in told["items"][:limit]]

    async def drain_node(self, node: str, *, draining: bool = True) -> int:
        path = f"/api/v1/nodes/{quote(node, safe='')}/drain"
        try:
            return int((await self.server.ask("POST", path, body={"draining": draining}))["incarnations"])
        except UnknownJob:  # what is not there is none
            return 0

    async def list_terms(self) -> list[Term]:
        told = await self.server.ask("GET", "/api/v1/terms")
        return [read(values.term, one) for one in told["items"]]

    async def set_shards(self, shards: int) -> Layout:
        return read(values.layout, await self.server.ask("PUT", "/api/v1/shards", body={"shards": shards}))

    async def list_queues(self) -> list[Queue]:
        told = await self.server.ask("GET", "/api/v1/queues")
        return [read(values.queue, one) for one in told["items"]]

    async def pause_queue(self, queue: str, *, reason: str = "") -> Queue:
        return await self._say(queue, "pause", {"reason": reason})

    async def resume_queue(self, queue: str) -> Queue:
        return await self._say(queue, "resume", None)

    async def share_queue(self, queue: str, weights: Mapping[str, int] | None) -> Queue:
        return await self._say(queue, "share", {"weights": None if weights is None else dict(weights)})

    async def _say(self, queue: str, deed: str, body: dict[str, Any] | None) -> Queue:
        path = f"/api/v1/queues/{quote(queue, safe='')}/{deed}"
        told = await self.server.ask("POST", path, query={"unused": "true"}, body=body, repeat=True)
        return read(values.queue, told)
