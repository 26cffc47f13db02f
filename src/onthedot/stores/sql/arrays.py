"""Long arrays as PostgreSQL writes them: one text each, for the statements of the hot path.

asyncpg looks at every element of a list whether it is a list in turn, some 0.6 µs each: with ten columns that is more
than the server takes for a run. A text costs a tenth of it. In a statement: `$1::text::bigint[]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal


def numbers(values: Iterable[int | Literal["NULL"]]) -> str:
    """
    >>> numbers([1, 2, "NULL"])
    '{1,2,NULL}'
    """
    return "{" + ",".join(map(str, values)) + "}"


def words(values: Sequence[str]) -> str:
    """
    >>> words(["a", "b c"]), words(['say "so"'])
    ('{"a","b c"}', '{"say \\\\"so\\\\""}')
    """
    if not values:
        return "{}"
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') > 2 * (len(values) - 1):
        joined = '","'.join(value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return f'{{"{joined}"}}'
