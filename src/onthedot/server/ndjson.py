"""Reads a body of newline-delimited JSON in pieces: each line is a request for a run."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi.exceptions import RequestValidationError

from onthedot.server.problems import Problem, problem_of_request
from onthedot.server.run_request import RunRequest, read_run_request

MOST_LINE = 64 * 1024
MOST_LINES = 100_000
MOST_BYTES = 64 * 1024 * 1024
TURN = 50
"""How many lines are read in one turn of the loop."""

Line = tuple[int, bytes]
"""The number of a line, and its bytes."""


class BadLine(Exception):
    """A refused line, and the problem."""

    def __init__(self, number: int, problem: Problem) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem


async def lines_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[list[Line]]:
    """Yield the lines that are not empty with their numbers, some at a time. `BadLine` at the first over a limit."""
    number, size, rest = 0, 0, b""
    async for piece in pieces:
        size += len(piece)
        *lines, rest = (rest + piece).split(b"\n") if b"\n" in piece else (rest + piece,)
        some: list[Line] = []
        for line in lines:
            number += 1
            too_much = _too_much(number, line)
            if too_much is not None:
                yield some  # the lines before it count
                raise too_much
            if line and not line.isspace():
                some.append((number, line))
                if len(some) == TURN:
                    yield some
                    some = []
        if some:
            yield some
        if len(rest) > MOST_LINE and (too_much := _too_much(number + 1, rest)):
            raise too_much
        if size > MOST_BYTES:
            raise _too_large(number + 1, f"at most {MOST_BYTES} bytes in a request")
    if rest.strip():
        if too_much := _too_much(number + 1, rest):
            raise too_much
        yield [(number + 1, rest)]


def _too_much(number: int, line: bytes) -> BadLine | None:
    if len(line) > MOST_LINE:
        return _too_large(number, f"at most {MOST_LINE} bytes in a line")
    if number > MOST_LINES:
        return _too_large(number, f"at most {MOST_LINES} lines in a request")
    return None


def _too_large(number: int, what: str) -> BadLine:
    return BadLine(number, Problem(413, "too-large", f"expected {what}, got more; send the rest in another request"))


def read_line(number: int, line: bytes) -> RunRequest:
    """Read a line; `BadLine` if it is no request for a run."""
    try:
        return read_run_request(line)
    except RequestValidationError as error:
        raise BadLine(number, problem_of_request(error)) from None
    except Problem as problem:
        raise BadLine(number, problem) from None
