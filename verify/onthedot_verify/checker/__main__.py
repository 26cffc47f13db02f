"""`python -m onthedot_verify.checker history.jsonl`: prints the violations. Exits with 1 if there are any, else with
0."""

from __future__ import annotations

import sys
from pathlib import Path

from onthedot_verify.checker import check, read


def main(paths: list[str]) -> int:
    found = [(path, violation) for path in paths for violation in check(read(Path(path)))]
    for path, violation in found:
        print(f"{path}: {violation}")
    print(f"{len(paths)} histories, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
