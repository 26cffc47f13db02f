"""The output store: whether what is written there can be read back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from onthedot.doctor.findings import Finding
from onthedot.ids import Ids
from onthedot.stores.addresses import shown_url

PATIENCE = 5
COSTS = "logs and artifacts of attempts are not kept"


async def look_at_output(url: str, ids: Ids) -> Finding:
    """Write a small object to a directory or to `s3://bucket/prefix`, read it back, and remove it."""
    import obstore
    from obstore.exceptions import BaseError

    shown = shown_url(url) if "://" in url else url
    name, words = f"onthedot-probe-{ids.token()}", b"onthedot was here"
    try:
        async with asyncio.timeout(PATIENCE):
            place = _open(url)
            await obstore.put_async(place, name, words)
            read = bytes(await (await obstore.get_async(place, name)).bytes_async())
            await obstore.delete_async(place, name)
    except TimeoutError:
        return _broken(f"{shown}: no answer within {PATIENCE} s")
    except (BaseError, OSError, ValueError) as error:
        return _broken(f"{shown}: {str(error).strip().partition(chr(10))[0][:300]}")
    if read != words:
        return _broken(f"{shown}: expected what was written, got something else")
    return Finding("output", "ok", f"{shown}: written and read back", wanted=True)


def _broken(found: str) -> Finding:
    return Finding(
        "output", "broken", found, COSTS, "see that it is there, and that the keys let us write", wanted=True
    )


def _open(url: str) -> Any:
    """A directory, which must be there, or a bucket."""
    from obstore.store import LocalStore, from_url

    if "://" not in url or url.startswith("file://"):
        folder = Path(url.removeprefix("file://"))
        if not folder.is_dir():
            raise ValueError("expected a directory, found none")
        return LocalStore(folder)
    return from_url(
        url, client_options={"timeout": f"{PATIENCE}s", "allow_http": True}, retry_config={"max_retries": 0}
    )
