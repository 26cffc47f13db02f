"""A heat map of the hours of the day, for a terminal: blocks, or plain characters where there are none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

_BLOCKS, _PLAIN = " ░▒▓█", " .:+#"
_STYLES = ("default", "#5fafff", "#5fd75f", "#ffd75f", "#ff5f5f")
_CELL = 2


@dataclass(frozen=True)
class HeatMap:
    """A row for each day or weekday, with a number for each of 24 hours."""

    rows: Sequence[tuple[str, Sequence[float]]]
    unit: str

    @property
    def most(self) -> float:
        return max((value for _, hours in self.rows for value in hours), default=0.0)

    def level(self, value: float) -> int:
        """0: nothing; 4: as much as there ever is.

        >>> heat = HeatMap([("Mon", [0.0, 1.0, 30.0, 100.0])], "starts")
        >>> [heat.level(value) for value in heat.rows[0][1]]
        [0, 1, 2, 4]
        """
        return 0 if not value else max(1, -(-int(value * 4_000 / self.most) // 1_000))

    def lines(self, *, blocks: bool = True) -> list[str]:
        """The map as text, with hours above and a legend below."""
        signs = _BLOCKS if blocks else _PLAIN
        width = max((len(name) for name, _ in self.rows), default=0)
        head = " " * width + " " + "".join(f"{hour:<{3 * _CELL}}" for hour in range(0, 24, 3)).rstrip()
        body = [f"{name:<{width}} {''.join(signs[self.level(value)] * _CELL for value in hours)}".rstrip()
                for name, hours in self.rows]  # fmt: skip
        return [head, *body, "", f"{' ' * width} {self._legend(signs)}"]

    def _legend(self, signs: str) -> str:
        steps = [f"{signs[level] * _CELL} up to {_number(self.most * level / 4)}" for level in range(1, 5)]
        return f"{', '.join(steps)} {self.unit}"


def _number(value: float) -> str:
    """
    >>> _number(1050.0), _number(2.25)
    ('1,050', '2.25')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def echo_heat(heat: HeatMap, *, colours: bool) -> None:
    """Print the map; in colours, the blocks have those of their level."""
    lines = heat.lines(blocks=can_show(_BLOCKS))
    if not colours:
        sys.stdout.write("\n".join(lines) + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        text = Text(line)
        for level in range(1, 5):
            text.highlight_regex(f"[{_BLOCKS[level]}]+", _STYLES[level])
        console.print(text)


def can_show(text: str) -> bool:
    """Whether standard output has these characters at all."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
