"""The checker: reads a history and says which promises it breaks.

    from onthedot_verify.checker import check, read
    for violation in check(read(path)):
        print(violation)

One rule is one function, named by its number in `RULES`; each has histories that it must catch in `tests/checker`.
"""

from onthedot_verify.checker.history import Journal, digest, read, write
from onthedot_verify.checker.model import History
from onthedot_verify.checker.rules import RULES, Violation, check

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
