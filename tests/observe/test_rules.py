"""The alert rules in docs/operate/prometheus-rules.yaml: their metrics exist, and they fire when they should."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from onthedot.clock import SECOND
from onthedot.model.events import AttemptEnded, RunSkipped, StoreTrouble
from onthedot.observe.counters import Counters
from onthedot.observe.metrics import NodeMetrics, Snapshot, exposed
from onthedot.stores.values import Queue
from tests.observe.sample_events import NOON, finish, lease, started
from tests.servers import setup
from tests.servers.plugin import need

RULES = Path(__file__).parents[2] / "docs" / "operate" / "prometheus-rules.yaml"
DEATHS = 'onthedot_attempts_ended_total{instance="w:9411",job="workers",job_name="import",job_namespace="default"'
DEAD, LOST = (f'{DEATHS},verdict="{verdict}"}}' for verdict in ("dead", "lost"))
SHARDS = 'onthedot_shards{instance="s:7411",job="onthedot"}'


def expressions() -> dict[str, str]:
    [group] = YAML(typ="safe").load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def test_the_rules_use_existing_metrics_and_labels():
    counters = Counters()
    for event in (started(), AttemptEnded(finish()), RunSkipped(lease(), "overlap:1:", 7)):
        counters(event)
    counters(StoreTrouble("planner", "gone", SECOND))
    text, _ = exposed([*NodeMetrics(counters).collect(), *Snapshot(NOON, [], 1, [Queue("default")]).collect()], "")
    told = set(re.findall(r"^(onthedot_\w+)", text.decode(), re.MULTILINE))
    labels = set(re.findall(r'(\w+)="', text.decode()))
    for alert, asked in expressions().items():
        assert set(re.findall(r"\bonthedot_\w+", re.sub(r'"[^"]*"', "", asked))) <= told, alert
        by = {name.strip() for names in re.findall(r"by \(([^)]*)\)", asked) for name in names.split(",")}
        assert by <= labels, alert


@pytest.mark.soak
def test_promtool_accepts_the_rules():
    said = promtool("check", "rules", str(RULES))
    assert f"SUCCESS: {len(expressions())} rules found" in said


@pytest.mark.soak
def test_the_rules_fire_on_the_first_death_and_without_a_server(tmp_path: Path):
    """A case has series with one value a minute, an alert, a minute, and whether the alert fires then."""
    zeros, ones = "0x30", "1x30"
    cases = [
        ({DEAD: f"0 0 0 {ones}"}, "OnTheDotRunsDie", 4, True),
        ({DEAD: f"0 0 0 {ones}"}, "OnTheDotRunsDie", 2, False),
        ({DEAD: f"_ _ _ {ones}"}, "OnTheDotRunsDie", 3, True),  # the node had no series of this job before
        ({LOST: f"_ _ _ {ones}"}, "OnTheDotRunsDie", 3, True),
        ({DEAD: zeros}, "OnTheDotRunsDie", 20, False),
        ({DEAD: ones}, "OnTheDotRunsDie", 20, False),  # the death is long ago
        ({}, "OnTheDotNoServer", 3, True),
        ({SHARDS: f"1 1 1 1 1 {'_ ' * 20}"}, "OnTheDotNoServer", 4, False),
        ({SHARDS: f"1 1 1 1 1 {'_ ' * 20}"}, "OnTheDotNoServer", 15, True),
        ({'up{instance="s:7411",job="onthedot"}': f"1 1 {zeros}"}, "OnTheDotTargetDown", 5, True),
        ({'up{instance="s:7411",job="other"}': zeros}, "OnTheDotTargetDown", 5, False),
    ]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {"expr": fired(alert), "eval_time": f"{minute}m", "exp_samples": [{"value": int(fires)}]}
            ],
        }
        for series, alert, minute, fires in cases
    ]
    file = tmp_path / "tests.json"  # JSON is also YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def fired(alert: str) -> str:
    """An expression that is 1 if the alert fires, else 0."""
    return f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'


def promtool(*arguments: Any) -> str:
    need(setup.PROMTOOL)
    done = subprocess.run([setup.PROMTOOL.found() or "", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
