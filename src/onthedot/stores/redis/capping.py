"""How many finished runs the server keeps: all of them are in its memory, so there is an end to it.

    redis://host/0?history=20000

The oldest go with the verdicts that are too many, and with upkeep; what goes is counted by job, day and state.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from onthedot.errors import DefinitionError

MOST_FINISHED = 100_000
OPTION = "history"


def take_history(url: str) -> tuple[str, int]:
    """The URL without this option, and how many finished runs are kept.

    >>> take_history("redis://host/0?prefix=shop&history=5000")
    ('redis://host/0?prefix=shop', 5000)
    """
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    asked = [value for name, value in given if name == OPTION]
    if not asked:
        return url, MOST_FINISHED
    if not asked[-1].isdecimal():
        raise DefinitionError(f"store URL, option {OPTION}: expected a whole number from 0 on, got {asked[-1]!r}")
    others = urlencode([pair for pair in given if pair[0] != OPTION], quote_via=quote)
    return urlunsplit(parts._replace(query=others)), int(asked[-1])
