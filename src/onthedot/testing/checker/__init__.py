"""The checker: reads a history and says which promises it breaks.

    from onthedot.testing.checker import check, read
    for violation in check(read(path)):
        print(violation)

One rule is one function, named by its number in `RULES`; each has histories that it must catch in `tests/checker`.
"""

from onthedot.testing.checker.history import Journal, digest, read, write
from onthedot.testing.checker.model import History
from onthedot.testing.checker.rules import RULES, Violation, check

__all__ = [
    "RULES",
    "History",
    "Journal",
    "Violation",
    "check",
    "digest",
    "read",
    "write",
]
