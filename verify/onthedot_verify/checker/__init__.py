"""The checker: reads a history and reports each promise that it breaks.

    from onthedot_verify.checker import check, read
    for violation in check(read(path)):
        print(violation)

Each rule is a function with a number in `RULES`. `tests/checker` has histories that each rule must catch.
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
