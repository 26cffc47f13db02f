"""The timeline of a chaos test shows each execution once, in the right lane and colour, in one file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from onthedot.model.run import AttemptRecord
from onthedot_verify.checker import Violation
from tests.chaos.evidence import Evidence, Notes
from tests.chaos.timeline import render, write
from tests.processes.kit import SECOND, Fault

T0 = 1_800_000_000 * SECOND
SVG = "{http://www.w3.org/2000/svg}"


def line(event: str, node: str, run: int, slot: float, at: float, fence: int = 1) -> str:
    seen = {"run": run, "attempt": 1, "fence": fence, "slot": T0 + int(slot * SECOND), "at": T0 + int(at * SECOND)}
    return json.dumps({"event": event, "node": node, "job": "tick-<1>", **seen}) + "\n"


def attempt(run: int, fence: int, outcome: str) -> AttemptRecord:
    return AttemptRecord(run, 1, f"l{fence}", fence, "n", 1, outcome, None, T0, T0, T0, T0, T0)


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """Evidence of two nodes. One is killed during an execution, which the other one repeats."""
    journal = tmp_path / "journal.jsonl"
    journal.write_text(
        line("start", "a", 1, 1, 1.002)
        + line("end", "a", 1, 1, 1.004)
        + line("start", "b", 2, 1, 1.001, fence=2)
        + line("start", "a", 2, 1, 5.5, fence=3)
        + line("end", "a", 2, 1, 7.0, fence=3)
    )
    attempts = {1: [attempt(1, 1, "succeeded")], 2: [attempt(2, 2, "lost"), attempt(2, 3, "succeeded")]}
    faults = [
        Fault("b", "kill", T0 + 2 * SECOND, T0 + 2 * SECOND),
        Fault("a", "freeze", T0 + 3 * SECOND, T0 + 4 * SECOND),
    ]
    terms = [("b", T0 + SECOND, 1), ("a", T0 + 3 * SECOND, 2)]
    return Evidence(Notes(journal).read(), faults, ["a", "b"], T0, T0 + 7 * SECOND, terms, attempts=attempts)


def picture(page: str) -> ElementTree.Element:
    found = re.search(r"<svg.*</svg>", page, re.DOTALL)
    assert found
    return ElementTree.fromstring(found[0])  # noqa: S314 - our own text


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [element for element in root.iter() if name in element.get("class", "").split()]


def title(element: ElementTree.Element) -> str:
    return element.findtext(f"{SVG}title") or ""


def test_each_execution_is_a_bar_in_the_lane_of_its_node(evidence: Evidence):
    lanes = {lane.get("data-node"): lane for lane in of_class(picture(render(evidence, "x")), "node-lane")}
    assert list(lanes) == ["a", "b"]
    assert [title(bar).split(",")[0] for bar in of_class(lanes["a"], "bar")] == [
        "tick-<1> on a: run 1",
        "tick-<1> on a: run 2",
    ]
    assert len(of_class(lanes["b"], "bar")) == 1


def test_bars_have_the_colour_of_their_outcome(evidence: Evidence):
    root = picture(render(evidence, "x"))
    assert [len(of_class(root, f"{kind}")) for kind in ("succeeded", "lost")] == [4, 2]  # a bar and a dot each
    [lost] = [bar for bar in of_class(root, "bar") if "lost" in bar.get("class", "")]
    assert title(lost).endswith("lost with its node")


def test_bars_are_as_long_as_the_execution(evidence: Evidence):
    bars = of_class(picture(render(evidence, "x")), "bar")
    short, long = (float(bar.get("width", "0")) for bar in bars if "run 2, attempt 1, fence 2" not in title(bar))
    assert short == 2.0  # the smallest visible width
    scale = (float(bars[1].get("x", "0")) - float(bars[0].get("x", "0"))) / (5.5 - 1.002)
    assert long == pytest.approx(1.5 * scale, abs=0.2)


def test_faults_are_marked_at_their_instants(evidence: Evidence):
    root = picture(render(evidence, "x"))
    assert [title(mark) for mark in of_class(root, "mark")] == [
        "kill: b, at 1.000 s",
        "freeze: a, at 2.000 s, for 1.000 s",
    ]
    [outage] = of_class(root, "outage")
    kill, freeze = (float(line.get("x1", "0")) for line in of_class(root, "fault"))
    assert kill < freeze == float(outage.get("x", "0"))


def test_the_terms_of_leaders_are_shown(evidence: Evidence):
    flags = [title(flag) for flag in of_class(picture(render(evidence, "x")), "term")]
    assert flags == ["a leads: term 2, 2.000 s", "b leads: term 1, 0.000 s"]


def test_dots_of_later_starts_are_higher(evidence: Evidence):
    heights = {title(dot): float(dot.get("cy", "0")) for dot in of_class(picture(render(evidence, "x")), "dot")}
    late = heights["tick-<1> on a, slot 0.000 s: 4500.0 ms late"]
    assert (
        late < heights["tick-<1> on a, slot 0.000 s: 2.0 ms late"] < heights["tick-<1> on b, slot 0.000 s: 1.0 ms late"]
    )


def test_the_page_loads_nothing_external(evidence: Evidence):
    page = render(evidence, "a & b <script>")
    assert "<script" not in page
    assert "a &amp; b &lt;script&gt;" in page
    assert re.findall(r"https?://[^\"]+", page) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"\b(src|href|url\()", page)


def test_broken_promises_are_listed(evidence: Evidence):
    assert "no broken promise" in render(evidence, "x")
    evidence.violations = [Violation("S5", 3, "two holders of <run 7>")]
    assert "<li>S5 at line 3: two holders of &lt;run 7&gt;</li>" in render(evidence, "x")


def test_an_empty_test_can_be_drawn(tmp_path: Path):
    nothing = Evidence(Notes(tmp_path / "none"), [], [], 0, 0)
    written = write(nothing, tmp_path / "timeline.html", "nothing")
    assert len(picture(written.read_text())) > 0


def test_many_bars_at_one_instant_stay_in_their_lane(tmp_path: Path):
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(line("start", "a", n, 1, 1.001) + line("end", "a", n, 1, 1.002) for n in range(400)))
    root = picture(render(Evidence(Notes(journal).read(), [], ["a"], T0, T0), "x"))
    [lane] = of_class(root, "lane")
    bottom = float(lane.get("y", "0")) + float(lane.get("height", "0"))
    assert len(of_class(root, "bar")) == 400
    assert max(float(bar.get("y", "0")) + float(bar.get("height", "0")) for bar in of_class(root, "bar")) <= bottom
