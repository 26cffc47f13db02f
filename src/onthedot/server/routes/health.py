"""Health, readiness and version of the server, and who the caller is."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

from onthedot.server.auth import There, Who
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["server"])


class Health(BaseModel):
    """Alive."""

    status: str


class Version(BaseModel):
    """Which one this is."""

    name: str
    version: str


class WhoOut(BaseModel):
    """Who asks, and what that one may do."""

    kind: str
    id: str
    name: str
    role: str
    permissions: list[str]
    namespaces: list[str]
    owner: str
    only_own: bool


@routes.get("/health", response_model=Health)
async def health() -> Any:
    """Alive: the process answers. Says nothing of the store."""
    return {"status": "ok"}


@routes.get("/ready", response_model=Health)
async def ready(there: There) -> Any:
    """Ready: the store answers, too; else 503."""
    await there.store.tell_time()
    return {"status": "ok"}


@routes.get("/version", response_model=Version)
async def get_version() -> Any:
    """Which version of onthedot this is."""
    return {"name": "onthedot", "version": version("onthedot")}


@routes.get("/whoami", response_model=WhoOut)
async def whoami(who: Who) -> Any:
    """Who you are to this server, and what you may do."""
    return {
        "kind": who.kind,
        "id": who.id,
        "name": who.name,
        "role": str(who.role),
        "permissions": sorted(str(permission) for permission in who.permissions),
        "namespaces": list(who.namespaces),
        "owner": who.owner,
        "only_own": who.only_own,
    }
