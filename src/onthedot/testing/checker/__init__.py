"""The checker: reads a history and says which promises it breaks.

    from onthedot.testing.checker import check, read
    for violation in check(read(path)):
        print(violation)

One rule is one function, named by its number in `RULES`; each has histories that it must catch in `tests/checker`.
"""

from onthedot.testing.checker.history import Event, Journal, digest, read, to_lines, write
from onthedot.testing.checker.matching import Matching, match
from onthedot.testing.checker.model import History
from onthedot.testing.checker.rules import RULES, Violation, check

__all__ = [
    "RULES",
    "Event",
    "History",
    "Journal",
    "Matching",
    "Violation",
    "check",
    "digest",
    "match",
    "read",
    "to_lines",
    "write",
]
