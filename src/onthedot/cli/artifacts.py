"""`onthedot artifacts list | fetch`: lists and downloads the files that runs have kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from onthedot.cli.connect import call_server, read_store
from onthedot.cli.errors import BROKEN, BadInput, Command, Failure, Group
from onthedot.cli.options import RUN, store_url, unknown_run, with_debug, with_json, with_server
from onthedot.cli.terminal import echo_table, local_time
from onthedot.clock import Micros
from onthedot.model.addresses import is_server
from onthedot.model.errors import did_you_mean
from onthedot.observe.formats import iso, plain
from onthedot.output.locations import output_location
from onthedot.output.output_owner import find_owner
from onthedot.output.output_store import OutputStore
from onthedot.output.run_output import Artifact, list_artifacts, read_artifact
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from onthedot.client.client import Client

T = TypeVar("T")

LARGE = 8 * 1024 * 1024
"""From this size in bytes a terminal shows a progress bar."""


class File(NamedTuple):
    """One file of an attempt, and how to read it."""

    attempt: int
    name: str
    size: int
    sha256: str
    at: Micros
    pieces: Callable[[], AsyncIterator[bytes]]


@click.group(cls=Group)
def artifacts() -> None:
    """List or download the artifacts of a run: the files that its steps have kept. It only reads.

    \b
    Examples:
      onthedot artifacts list 41
      onthedot artifacts fetch 41
      onthedot artifacts fetch 41 dist/report.csv --to - | head
    """


def with_place(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--output`: where artifacts are stored."""
    what = "Where output is kept.  [default: where the store's nodes keep it]"
    return click.option("--output", metavar="PLACE", help=what)(command)


@artifacts.command("list", cls=Command, short_help="List the files that a run has kept.")
@click.argument("run_id", type=RUN, metavar="RUN")
@with_place
@with_server
@with_json("a JSON array with one object per file: attempt, name, size, sha256, at")
@with_debug
def list_(run_id: int, output: str | None, store: str | None, db: str | None, as_json: bool) -> None:
    """List the files that the attempts of the run with the number RUN have kept: name, size, and when.

    \b
    Examples:
      onthedot artifacts list 41
      onthedot artifacts list 41 --json | jq -r '.[].name'
    """

    async def as_they_are(files: list[File]) -> list[File]:
        return files

    found = _with_files(store_url(store, db), run_id, output, as_they_are)
    if as_json:
        told = [
            {"attempt": one.attempt, "name": one.name, "size": one.size, "sha256": one.sha256, "at": iso(one.at)}
            for one in found
        ]
        click.echo(json.dumps(told, indent=2))
    elif found:
        rows = [[str(one.attempt), one.name, _size(one.size), local_time(one.at, None, exact=False)] for one in found]
        echo_table(["TRY", "NAME", "SIZE", "LEFT AT"], rows)
    else:
        click.echo(f"run {run_id} has left no artifacts that are kept")


@artifacts.command(cls=Command, short_help="Download files that a run has kept.")
@click.argument("run_id", type=RUN, metavar="RUN")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--to", "to", metavar="DIR|-", default=".", show_default=True, help="Where to; '-': standard output.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt.  [default: the newest]")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@with_place
@with_server
@with_json("a JSON array with one object per file: attempt, name, size, path")
@with_debug
def fetch(
    run_id: int, names: tuple[str, ...], to: str, attempt: int | None, force: bool, output: str | None,
    store: str | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Download the files with these NAMEs of the run with the number RUN, or all files, with their folders, to DIR. No
    file is replaced without --force, and none is written outside of DIR. A file appears only when it is complete and
    its checksum is right.

    \b
    Examples:
      onthedot artifacts fetch 41
      onthedot artifacts fetch 41 dist/app.whl --to /tmp/build
      onthedot artifacts fetch 41 report.csv --to - | head
      onthedot artifacts fetch 41 --store https://jobs.example.org --to out
    """

    async def work(files: list[File]) -> list[tuple[File, Path | None]]:
        meant = _meant(files, names, attempt, run_id)
        if to == "-":
            if len(meant) != 1 or as_json:
                raise BadInput("--to -: expected one NAME and no --json; name the file, or fetch them into a folder")
            await _copy(meant[0], sys.stdout.buffer)
            return []
        targets = [(one, _target(Path(to), one.name)) for one in meant]
        if not force:
            _check_new([path for _, path in targets if path is not None])
        for one, path in targets:
            if path is not None:
                with _new_file(Path(to), path, force=force) as target:
                    await _copy(one, target)
        return targets

    done = _with_files(store_url(store, db), run_id, output, work)
    left_out = [one for one, path in done if path is None]
    if as_json:
        told = [
            {"attempt": one.attempt, "name": one.name, "size": one.size, "path": None if path is None else str(path)}
            for one, path in done
        ]
        click.echo(json.dumps(told, indent=2))
    else:
        for one, path in done:
            if path is not None:
                click.echo(f"{plain(str(path), most=4_000)}  {_size(one.size)}")
        if not done and to != "-":
            click.echo(f"run {run_id} has left no artifacts that are kept")
    for one in left_out:
        name = plain(one.name, most=1_000)
        click.echo(
            f"left out {name!r}: its name leads out of the folder, or no file can have it; fetch it with --to - > FILE",
            err=True,
        )
    click.get_current_context().exit(BROKEN if left_out else 0)


# ── which files ──────────────────────────────────────────────────────────────────────────────────────────────────


def _with_files(url: str, run_id: int, output: str | None, work: Callable[[list[File]], Awaitable[T]]) -> T:
    """Call `work` with the files of a run, while the store or the server is open."""
    if is_server(url):
        if output is not None:
            raise click.UsageError("--output: expected none with a server, which reads where it is kept; leave it out")

        async def ask(client: Client) -> T:
            return await work(await _of_server(client, run_id))

        return call_server(url, ask)
    output_location(output or "", url)  # refuse a wrong place before the store is opened

    async def read(store: Store) -> T:
        return await work(await _of_store(store, url, run_id, output or ""))

    return read_store(url, read)


async def _of_store(store: Store, url: str, run_id: int, output: str) -> list[File]:
    if await store.queries.get_run(run_id) is None:
        raise unknown_run(run_id)
    outputs = OutputStore((await find_owner(store)).location(output, url))

    def file(one: Artifact) -> File:
        kept = one.kept
        return File(one.of.attempt, one.name, kept.size, kept.sha256, one.ended_at, lambda: read_artifact(outputs, one))

    return [file(one) for one in await list_artifacts(store, outputs, run_id)]


async def _of_server(client: Client, run_id: int) -> list[File]:
    from onthedot.client import views

    if await client.get_run(run_id) is None:
        raise unknown_run(run_id)
    server, ended = client.server, {one.attempt: one.ended_at for one in await client.history(run_id)}

    def file(told: Mapping[str, Any]) -> File:
        attempt, name = told["attempt"], told["name"]
        read = views.read_artifact
        return File(
            attempt, name, told["size"], told["sha256"], ended[attempt], lambda: read(server, run_id, attempt, name)
        )

    return [file(one) for one in await views.artifacts(server, run_id) if one["attempt"] in ended]


def _meant(files: Sequence[File], names: Sequence[str], attempt: int | None, run_id: int) -> list[File]:
    """Return the named files, or all. If several attempts have a file of that name, return that of the newest
    attempt."""
    by_name = {one.name: one for one in files if attempt in (None, one.attempt)}
    for name in names:
        if name not in by_name:
            near = did_you_mean(name, by_name) if by_name else "; it has none"
            raise BadInput(f"NAME: expected an artifact of run {run_id}, got {name!r}{near}")
    return [by_name[name] for name in dict.fromkeys(names or by_name)]


# ── writing them ─────────────────────────────────────────────────────────────────────────────────────────────────


def _target(folder: Path, name: str) -> Path | None:
    """Return the path for a file; None if its name leads out of the folder, or cannot be a file name."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or name.endswith("/") or ".." in parts or not _can_be_named(name):
        return None
    path = folder.joinpath(*parts)
    inside = path.parent.resolve().is_relative_to(folder.resolve())  # a symbolic link may lead out, too
    return path if inside else None


def _can_be_named(name: str) -> bool:
    """Return whether a file on this machine can have this name."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _check_new(paths: Sequence[Path]) -> None:
    taken = [plain(str(path), most=1_000) for path in paths if os.path.lexists(path)]
    if taken:
        more = f" and {len(taken) - 5} more" if len(taken) > 5 else ""
        raise BadInput(f"{', '.join(taken[:5])}{more}: expected no such file; move it, or replace it with --force")


@contextmanager
def _new_file(folder: Path, path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Write a temporary file next to the target, and rename it when it is complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=path.parent, prefix=".onthedot-")
        try:
            with open(handle, "wb") as target:
                yield target
            _give_usual_mode(written)
            if force:
                os.replace(written, path)
            else:
                _name_new(written, path)
        finally:
            Path(written).unlink(missing_ok=True)
    except OSError as error:
        raise Failure(f"{path}: expected to write it below {folder}, but {error.strerror or error}") from error


def _name_new(written: str, path: Path) -> None:
    """Rename without replacing a file, by a hard link. Copy the file if the file system has no links, such as vfat."""
    try:
        os.link(written, path)
    except FileExistsError:
        raise
    except OSError:
        with open(path, "xb") as target:
            try:
                with open(written, "rb") as source:
                    shutil.copyfileobj(source, target)
            except BaseException:  # also Ctrl-C: remove the incomplete file, and raise again
                path.unlink(missing_ok=True)
                raise


def _give_usual_mode(path: str) -> None:
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


async def _copy(file: File, target: IO[bytes]) -> None:
    """Copy a file, and check its size and checksum."""
    shows = file.size >= LARGE and sys.stderr.isatty()
    bar: Any = click.progressbar(length=file.size, label=plain(file.name), file=sys.stderr) if shows else nullcontext()
    digest, size = hashlib.sha256(), 0
    with bar as progress:
        async for piece in file.pieces():
            size += len(piece)
            if size > file.size:
                break
            target.write(piece)
            digest.update(piece)
            if progress is not None:
                progress.update(len(piece))
    target.flush()
    if size != file.size or digest.hexdigest() != file.sha256:
        raise Failure(
            f"artifact {file.name!r}: expected {file.size} bytes as they were kept, "
            f"got {'more' if size > file.size else 'others'}; fetch it again"
        )


def _size(size: int) -> str:
    """
    >>> _size(812), _size(3_500_000)
    ('812 B', '3.3 MiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = min(max(size.bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{size / 1024**power:.1f} {units[power]}" if power else f"{size} B"
