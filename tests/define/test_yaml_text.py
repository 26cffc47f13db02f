"""Hostile files are refused within a second of processor time and 50 MB, with a short message, and run nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from onthedot.cli.main import cli
from onthedot.define.job_reader import read_file
from onthedot.model.task import Command
from tests.define.hostile_yaml import CANARY, READ, REFUSED

# Reads each given file in its own child process under limits that would kill it, and prints the time and the problems.
PROBE = """
import json, os, resource, sys, time
from pathlib import Path
from onthedot.define.yaml_text import WrongText
from onthedot.define.job_reader import read_jobs, read_text
from onthedot.define.yaml_text import OF_STRANGERS

MB = 1 << 20
def size():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

read_jobs("jobs: [{name: a, schedule: '@daily', run: x}]")
for name in sys.argv[1:]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (size() + 50 * MB,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        began = time.process_time()
        try:
            read_jobs(read_text(Path(name)), name, OF_STRANGERS)
            told = []
        except WrongText as error:
            told = error.problems
        took = time.process_time() - began
        os.write(writing, json.dumps({"took": took, "told": [one[:500] for one in told][:50]}).encode())
        os._exit(0)
    os.close(writing)
    text = b""
    while part := os.read(reading, 65536):
        text += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    print(json.dumps({"name": name, "status": status, **json.loads(text or "{}")}))
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    files = {}
    for number, (what, text) in enumerate(REFUSED.items()):
        files[what] = folder / f"{number}.yaml"
        files[what].write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return files


@pytest.mark.slow
def test_a_hostile_file_is_refused_within_a_second_and_50_mb(corpus: dict[str, Path], tmp_path: Path):
    names = {str(path): what for what, path in corpus.items()}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *names], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(corpus)
    print("slowest:", sorted(((one.get("took", 99), names[one["name"]]) for one in found), reverse=True)[:3])
    took = {names[one["name"]]: one.get("took", 99) for one in found}
    assert {what: seconds for what, seconds in took.items() if seconds > 1.0} == {}
    wrong = {names[one["name"]]: one for one in found if one["status"] or not one.get("told")}
    assert wrong == {}
    assert list(tmp_path.iterdir()) == [], f"expected no file: a command of the YAML was run and made {CANARY}"


@pytest.mark.parametrize("what", [what for what, text in REFUSED.items() if len(text) < 50_000])
def test_the_command_line_refuses_a_hostile_file_with_a_short_message(
    corpus: dict[str, Path], what: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(corpus[what].parent)
    result = CliRunner().invoke(cli, ["check", corpus[what].name])
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"{corpus[what].name}:"), lines
    assert lines[-1].endswith("in 1 file")
    assert "Traceback" not in result.output
    assert max(map(len, lines)) <= 2_100
    assert len(lines) <= 12
    assert not (corpus[what].parent / CANARY).exists()


@pytest.mark.parametrize("what", READ)
def test_an_odd_but_valid_file_is_read(what: str, tmp_path: Path):
    text, env = READ[what]
    (tmp_path / "it.yaml").write_bytes(text.encode())
    job = read_file(tmp_path / "it.yaml")[0]
    assert isinstance(job.task, Command)
    assert env is None or job.task.env == env
