"""One line of the table: the values of ours and of bare, the budget, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

Verdict = Literal["aim", "ok", "FAILS", "printed"]


class BenchFailed(Exception):
    """The work itself went wrong: runs were lost, duplicated or early, or did not end. Then no figure counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A line of the table. Floor and aim are limits for `measured`: a ratio, a difference or a value.

    `ours` and `bare` are medians over the rounds, `spread` the smallest and the largest `measured` of a round.
    A line without a `floor` cannot fail; it is only printed.
    """

    name: str
    ours: float
    bare: float
    measured: float
    spread: tuple[float, float]
    unit: str  # of ours and bare
    measure: str  # what `measured` is, with its unit: "ratio", "above, ms"
    floor: float | None = None
    aim: float | None = None
    more_is_better: bool = False
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Return `FAILS` (floor missed), `aim` (aim reached), `ok` (between them) or `printed` (no floor)."""
        if self.floor is not None and not self._reaches(self.floor):
            return "FAILS"
        if self.aim is not None and self._reaches(self.aim):
            return "aim"
        return "printed" if self.floor is None else "ok"

    def _reaches(self, bound: float) -> bool:
        return self.measured >= bound if self.more_is_better else self.measured <= bound

    def as_json(self) -> dict[str, object]:
        """Return all fields and the verdict."""
        return {**asdict(self), "verdict": self.verdict}


def ratio(
    name: str,
    rounds: Sequence[tuple[float, float]],
    *,
    unit: str,
    aim: float | None = None,
    note: str = "",
) -> Result:
    """Make a line with the ratio ours / bare; more is better. `rounds` has a pair (bare, ours) for each round.

    Its floor is in `floors.json`.
    """
    ratios = [ours / bare for bare, ours in rounds]
    return Result(
        name=name, ours=median(o for _, o in rounds), bare=median(b for b, _ in rounds), measured=median(ratios),
        spread=(min(ratios), max(ratios)), unit=unit, measure="ratio", aim=aim, more_is_better=True, note=note,
    )  # fmt: skip


def above(
    name: str,
    rounds: Sequence[tuple[float, float]],
    *,
    unit: str,
    floor: float | None = None,
    aim: float | None = None,
    note: str = "",
) -> Result:
    """Make a line with the difference ours - bare; less is better. `rounds` has a pair (bare, ours) for each round."""
    gaps = [ours - bare for bare, ours in rounds]
    return Result(
        name=name, ours=median(o for _, o in rounds), bare=median(b for b, _ in rounds), measured=median(gaps),
        spread=(min(gaps), max(gaps)), unit=unit, measure=f"above, {unit}", floor=floor, aim=aim, note=note,
    )  # fmt: skip


def exit_code(results: Sequence[Result], failures: Sequence[str], *, size: float) -> int:
    """Return 1 if a bench failed at any size or a floor was missed at full size, else 0."""
    return int(bool(failures) or (size >= 1 and bool(missed(results))))


def missed(results: Sequence[Result]) -> list[str]:
    """Return a line of text for each missed floor."""
    return [
        f"{line.name}: {line.measure} {short(line.measured)}, floor {short(line.floor)}"
        for line in results
        if line.verdict == "FAILS"
    ]


def table(results: Sequence[Result]) -> str:
    """Return all lines as an aligned table."""
    head = ("bench", "ours", "bare", "unit", "measured", "", "spread", "floor", "aim", "verdict", "")
    rows = [head, *map(_cells, results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join("  ".join(map(_aligned, row, widths, range(len(head)))).rstrip() for row in rows)


def _cells(line: Result) -> tuple[str, ...]:
    low, high = line.spread
    return (
        line.name, short(line.ours), short(line.bare), line.unit, short(line.measured), line.measure,
        f"{short(low)} … {short(high)}", short(line.floor), short(line.aim), line.verdict, line.note,
    )  # fmt: skip


def _aligned(cell: str, width: int, column: int) -> str:
    is_number = column in (1, 2, 4, 7, 8)
    return cell.rjust(width) if is_number else cell.ljust(width)


def short(value: float | None) -> str:
    """Format a figure with two or three digits, because a noisy machine gives no more.

    >>> short(36541.2), short(12.34), short(0.3512), short(None)
    ('36,541', '12.3', '0.35', '-')
    """
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
