"""Names in the tree can be guessed: modules are nouns, services have the name of their class, tests mirror modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, ROOT, VERIFY, python_files, report

GERUND_OR_PARTICIPLE = re.compile(r"[a-z]+(ing|ed)")
IRREGULAR = frozenset({
    "begun", "broken", "built", "chosen", "done", "found", "given", "gone", "hidden", "kept", "left", "lent", "lost",
    "made", "met", "put", "read", "said", "seen", "sent", "set", "shown", "spent", "taken", "thrown", "told", "won",
    "written",
})  # fmt: skip
"""Irregular participles."""

NOUNS = frozenset({"blocking", "feed", "need", "ring", "seed", "setting", "speed", "string", "testing", "thing"})
"""Words that only look like a participle, or that are usual as names: `blocking`, `testing`."""


def is_gerund_or_participle(name: str) -> bool:
    """Return whether a name is only a form of a verb. `why_waiting` is more."""
    return name not in NOUNS and (GERUND_OR_PARTICIPLE.fullmatch(name) is not None or name in IRREGULAR)


def verbs_in(package: Path) -> Iterator[str]:
    """Yield the modules, Lua files and folders of a package whose name is a form of a verb."""
    for path in (*python_files(package), *sorted(package.rglob("*.lua"))):
        inner = path.relative_to(package)
        if path.name == "__init__.py" and path.parent != package and is_gerund_or_participle(path.parent.name):
            yield inner.parent.as_posix()
        elif is_gerund_or_participle(path.stem):
            yield inner.as_posix()


@pytest.mark.parametrize("package", [PACKAGE, VERIFY / "onthedot_verify"], ids=["src", "verify"])
def test_modules_and_folders_have_nouns_as_names(package: Path):
    found = sorted(verbs_in(package))
    assert not found, report("rename these to a usual noun; a gerund or participle alone is not one:", found)


def test_the_rule_holds_for_lua_files(tmp_path: Path):
    for name in ("passing.lua", "unsettled.lua", "gates.lua", "gate_checks.lua"):
        (tmp_path / name).write_text("")
    assert list(verbs_in(tmp_path)) == ["passing.lua", "unsettled.lua"]


def test_verbs_are_found_and_nouns_are_not():
    verbs = ("asking", "imported", "written", "found", "gone")
    nouns = ("why_waiting", "written_jobs", "feed", "testing", "setup", "fencing_token", "leader", "wakeup")
    assert [name for name in (*verbs, *nouns) if is_gerund_or_participle(name)] == list(verbs)


# ── services ─────────────────────────────────────────────────────────────────────────────────────────────────


def services() -> Iterator[tuple[str, str, str]]:
    """Yield the module, the class and the `name` of each service."""
    for path in python_files(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "Service" in [ast.unparse(base) for base in node.bases]:
                for line in node.body:
                    if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "name":
                        yield path.stem, node.name, ast.literal_eval(line.value)


def snake_case(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()


def test_services_are_named_after_their_class_or_module():
    """Logs show the name, so that readers can find the code."""
    found = list(services())
    assert len(found) > 20
    wrong = [
        f"{module}.{kind}: {name!r}"
        for module, kind, name in found
        if re.sub("[ -]", "_", name) not in (module, snake_case(kind))
    ]
    assert not wrong, report("give these the name of their class or module:", wrong)


# ── tests mirror the source ──────────────────────────────────────────────────────────────────────────────────

SUBJECTS: dict[str, tuple[str, ...]] = {
    "rules for keys that hold in any order of events": ("tests/access/test_lifetimes.py",),
    "commands as a user types them, with nodes and servers": (
        "tests/cli/test_beside_a_node.py",
        "tests/cli/test_hostile_text.py",
        "tests/cli/test_limits.py",
        "tests/cli/test_on_a_server.py",
    ),
    "whole nodes in virtual time": (
        "tests/node/test_given_up.py",
        "tests/node/test_lost_answers.py",
        "tests/node/test_own_queues.py",
        "tests/node/test_placement.py",
        "tests/node/test_rates.py",
        "tests/node/test_roles.py",
        "tests/node/test_schedule_options.py",
        "tests/node/test_overlap.py",
    ),
    "alert rules, which are not Python": ("tests/observe/test_rules.py",),
    "one rule for every front door": (
        "tests/operations/test_every_verb.py",
        "tests/operations/test_late_edits.py",
        "tests/operations/test_same_verbs.py",
    ),
    "output of whole nodes, in every form": (
        "tests/output/test_away.py",
        "tests/output/test_canary.py",
        "tests/output/test_live_notes.py",
    ),
    "a guard whose worker is gone": ("tests/runners/guard/test_lost_workers.py",),
    "handlers in child processes": (
        "tests/runners/children/test_context.py",
        "tests/runners/children/test_outside.py",
        "tests/runners/children/test_processes.py",
        "tests/runners/children/test_programs.py",
    ),
    "attempts from their definition to their outcome, with real programs": (
        "tests/runners/test_blocked.py",
        "tests/runners/test_canary.py",
        "tests/runners/program/test_clear_up.py",
        "tests/runners/test_container_nodes.py",
        "tests/runners/test_container_podman.py",
        "tests/runners/test_evil_handlers.py",
        "tests/runners/test_http_jobs.py",
        "tests/runners/test_http_tls.py",
        "tests/runners/program/test_kept_output.py",
        "tests/runners/test_live_lines.py",
        "tests/runners/program/test_many_commands.py",
        "tests/runners/program/test_commands.py",
        "tests/runners/program/test_steps.py",
        "tests/runners/test_transactions_trouble.py",
    ),
    "known cases, an oracle, or one rule for all readers": (
        "tests/schedules/test_cron_nights.py",
        "tests/schedules/test_cron_oracle.py",
        "tests/schedules/test_doctests.py",
        "tests/schedules/test_hostile.py",
        "tests/schedules/test_oracle.py",
    ),
    "the whole API over HTTP": (
        "tests/server/test_access.py",
        "tests/server/test_generated_client.py",
        "tests/server/test_matrix.py",
        "tests/server/test_schemathesis.py",
        "tests/server/test_stores.py",
    ),
    "a property of the whole store on a real PostgreSQL": (
        "tests/stores/postgres/test_arrays.py",
        "tests/stores/postgres/test_django.py",
        "tests/stores/postgres/test_finding.py",
        "tests/stores/postgres/test_frozen.py",
        "tests/stores/postgres/test_hot_plans.py",
        "tests/stores/postgres/test_dead_letters.py",
        "tests/stores/postgres/test_lock_order.py",
        "tests/stores/postgres/test_interleavings.py",
        "tests/stores/postgres/test_plans.py",
        "tests/stores/postgres/test_pooler.py",
        "tests/stores/postgres/test_racing.py",
        "tests/stores/postgres/test_scheduler.py",
        "tests/stores/postgres/test_tls.py",
    ),
    "a property of the whole store on a real server": (
        "tests/stores/redis/test_bounded.py",
        "tests/stores/redis/test_capping.py",
        "tests/stores/redis/test_epoch.py",
        "tests/stores/redis/test_pure_lua.py",
        "tests/stores/redis/test_racing.py",
        "tests/stores/redis/test_scheduler.py",
        "tests/stores/redis/test_tls.py",
    ),
    "a property of the whole store on a real file": (
        "tests/stores/sqlite/test_dependencies.py",
        "tests/stores/sqlite/test_failures.py",
        "tests/stores/sqlite/test_finding.py",
        "tests/stores/sqlite/test_million.py",
        "tests/stores/sqlite/test_processes.py",
        "tests/stores/sqlite/test_query_plans.py",
        "tests/stores/sqlite/test_retention.py",
    ),
    "a rule for several stores": (
        "tests/stores/test_memory_due.py",
        "tests/stores/test_rates.py",
    ),
    "a scenario through the front door of the whole package": (
        "tests/test_audited.py",
        "tests/test_dependencies.py",
        "tests/test_front_door.py",
        "tests/test_lanes.py",
        "tests/test_outages.py",
        "tests/test_results.py",
        "tests/test_service.py",
        "tests/test_subscribers.py",
    ),
    "the harness and its plugin as users use them": (
        "tests/testing/test_plugin.py",
        "tests/testing/test_putting.py",
        "tests/testing/test_statements.py",
    ),
}
"""By reason: test modules that test more than one module of the source, or none."""


def mirrors(test: Path, tests: Path, package: Path) -> bool:
    """Return whether the source has a module or folder with the test's name, below the matching folder."""
    folder, name = package / test.parent.relative_to(tests), test.stem.removeprefix("test_")
    return any(entry.name in (name, f"{name}.py") for entry in folder.rglob("*") if "__pycache__" not in entry.parts)


def without_module(tests: Path, package: Path) -> Iterator[str]:
    """Yield the test modules that mirror no module, in folders that mirror a package."""
    for test in sorted(tests.rglob("test_*.py")):
        parts = test.relative_to(tests).parts
        if (len(parts) == 1 or (package / parts[0]).is_dir()) and not mirrors(test, tests, package):
            yield test.relative_to(tests.parent).as_posix()


def test_tests_are_in_the_folder_of_their_module():
    known = {path for paths in SUBJECTS.values() for path in paths}
    found = sorted(set(without_module(ROOT / "tests", PACKAGE)) - known)
    gone = sorted(path for path in known if not (ROOT / path).is_file())
    assert not gone, report("remove these from SUBJECTS in tests/architecture/test_tree.py; they are gone:", gone)
    assert not found, report(
        "rename these after the module that they test (tests/node/test_leader.py for node/leader.py), or add them to "
        "SUBJECTS in tests/architecture/test_tree.py:",
        found,
    )


def test_a_test_without_its_module_is_found(tmp_path: Path):
    source = ["src/node/leader.py", "src/node/parts/seat.py"]
    mirrored = ["tests/node/test_leader.py", "tests/node/test_seat.py", "tests/node/test_parts.py"]
    others = ["tests/node/test_gone.py", "tests/test_all.py"]
    for path in (*source, *mirrored, *others, "tests/other/test_gone.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    assert list(without_module(tmp_path / "tests", tmp_path / "src")) == [
        "tests/node/test_gone.py",
        "tests/test_all.py",
    ]
