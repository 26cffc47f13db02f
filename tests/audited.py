"""Tables of the audit entry that each verb, route and command writes.

Tests compare these tables with the code. A new operation fails until it has a line here: the verb of its entry, or the
reason why it needs none.
"""

from __future__ import annotations

READS = "reads only"
DEFINES = "defines a job in this program; `start` stores and records it"
LOCAL_ONLY = "changes only this process"

VERBS: dict[str, str | set[str]] = {
    "apply": {"jobs.create", "jobs.edit", "jobs.delete"},
    "backfill": {"jobs.backfill"},
    "cancel": {"runs.cancel"},
    "dead_letters": READS,
    "dead_runs": READS,
    "discard": {"letters.discard"},
    "drain_node": {"nodes.drain", "nodes.undrain"},
    "get_job": READS,
    "get_run": READS,
    "history": READS,
    "list_jobs": READS,
    "list_nodes": READS,
    "list_queues": READS,
    "list_runs": READS,
    "list_skips": READS,
    "list_terms": READS,
    "logs": READS,
    "move_next": {"jobs.move-next"},
    "pause": {"jobs.pause"},
    "pause_queue": {"queues.pause"},
    "put": {"jobs.create", "jobs.edit"},
    "remove": {"jobs.delete"},
    "replay": {"letters.replay"},
    "replay_many": {"letters.replay"},
    "result": READS,
    "resume": {"jobs.resume"},
    "resume_queue": {"queues.resume"},
    "retry_run": {"runs.retry"},
    "set_shards": {"shards.set"},
    "share_queue": {"queues.share"},
    "skip_next": {"jobs.skip-next"},
    "submit": {"runs.submit"},
    "submit_many": {"runs.submit"},
    "trigger": {"runs.trigger"},
    # ── of `Scheduler` and its blocking twin ─────────────────────────────────────────────────────────────────
    "add": DEFINES,
    "add_file": DEFINES,
    "command": DEFINES,
    "job": DEFINES,
    "steps": DEFINES,
    "start": {"jobs.create", "jobs.edit"},
    "stop": "releases its runs; the record of the node shows that it left",
    "stop_now": "the same as stop",
    "broken": READS,
    "hooks": LOCAL_ONLY,
    "secrets_from": LOCAL_ONLY,
    "subscribe": LOCAL_ONLY,
}
"""For each public verb of the library: the verbs of its entries, or the reason why it has none."""

ROUTES: dict[str, str | set[str]] = {
    "POST /api/v1/login": {"login"},
    "POST /api/v1/logout": {"logout"},
    "DELETE /api/v1/sessions/{session}": {"sessions.end"},
    "POST /api/v1/keys": {"keys.create"},
    "DELETE /api/v1/keys/{key}": {"keys.revoke"},
    "POST /api/v1/users": {"users.create"},
    "PATCH /api/v1/users/{user}": {"users.change"},
    "DELETE /api/v1/users/{user}": {"users.delete"},
    "POST /api/v1/jobs": {"jobs.create"},
    "PUT /api/v1/jobs/{job}": {"jobs.edit"},
    "PATCH /api/v1/jobs/{job}": {"jobs.edit"},
    "DELETE /api/v1/jobs/{job}": {"jobs.delete"},
    "POST /api/v1/jobs/{job}/pause": {"jobs.pause"},
    "POST /api/v1/jobs/{job}/resume": {"jobs.resume"},
    "POST /api/v1/jobs/{job}/skip-next": {"jobs.skip-next"},
    "POST /api/v1/jobs/{job}/move-next": {"jobs.move-next"},
    "POST /api/v1/jobs/{job}/backfill": {"jobs.backfill"},
    "PUT /api/v1/sources/{source:path}": {"jobs.edit"},
    "POST /api/v1/schedules/describe": READS,
    "POST /api/v1/schedules/lint": READS,
    "POST /api/v1/schedules/preview": READS,
    "POST /api/v1/nodes/{node}/drain": {"nodes.drain"},
    "PUT /api/v1/shards": {"shards.set"},
    "POST /api/v1/queues/{queue}/pause": {"queues.pause"},
    "POST /api/v1/queues/{queue}/resume": {"queues.resume"},
    "POST /api/v1/queues/{queue}/share": {"queues.share"},
    "POST /api/v1/runs": {"runs.submit"},
    "POST /api/v1/jobs/{job}/trigger": {"runs.trigger"},
    "POST /api/v1/runs/{run}/cancel": {"runs.cancel"},
    "POST /api/v1/runs/{run}/retry": {"runs.retry"},
    "POST /api/v1/dead-letters/replay": {"letters.replay"},
    "POST /api/v1/dead-letters/discard": {"letters.discard"},
    "POST /jobs": {"jobs.create"},
    "DELETE /jobs/{job_id}": {"jobs.delete"},
    "POST /api/v1/submit_job": {"jobs.create"},
}
"""For each route that may change something: the verbs of its entries, or the reason why it has none."""


class Command:
    """A command that changes something: its arguments, the verb of its entry, and its typed input.

    The test data provides the names in braces. `server`: whether the command also works on a server.
    """

    def __init__(self, arguments: str, verb: str, *, server: bool = True, typed: str = "") -> None:
        self.arguments = arguments
        self.verb = verb
        self.server = server
        self.typed = typed


NODE = "a node; the jobs of its program are recorded as by `start` of the library"
PASSWORD = "a good long password"

COMMANDS: dict[str, str | Command] = {
    "up": NODE,  # tests/cli/test_up.py tests the link that it prints
    "worker": NODE,
    "server": "a node and a server; its routes record the requests",
    "store check": READS,
    "store migrate": Command("--db {folder}/old.db", "store.migrate", server=False),
    "check": READS,
    "lint": READS,
    "plan": READS,
    "apply": Command("{folder}/jobs.yaml", "jobs.create"),
    "export": READS,
    "import": Command("{folder}/crontab --from crontab --user --apply", "jobs.create", server=False),
    "next": READS,
    "simulate": READS,
    "jobs": READS,
    "runs": READS,
    "skips": READS,
    "upcoming": READS,
    "show": READS,
    "dead discard": Command("{dead} --yes", "letters.discard"),
    "dead list": READS,
    "dead replay": Command("{dead} --yes", "letters.replay"),
    "dead show": READS,
    "logs": READS,
    "artifacts fetch": READS,
    "artifacts list": READS,
    "nodes": READS,
    "queues": READS,
    "audit": READS,  # with --to it keeps its own position
    "doctor": READS,
    "openapi": READS,
    "completion": READS,
    "create": Command("fresh --run true", "jobs.create"),
    "edit": Command("nap --set priority=high", "jobs.edit"),
    "rm": Command("nap --yes", "jobs.delete"),
    "trigger": Command("nap", "runs.trigger"),
    "retry": Command("{dead}", "runs.retry"),
    "cancel": Command("{running}", "runs.cancel"),
    "pause": Command("nap", "jobs.pause"),
    "resume": Command("asleep", "jobs.resume"),
    "skip-next": Command("nap", "jobs.skip-next"),
    "move-next": Command("nap +30m", "jobs.move-next"),
    "backfill": Command("nap --from 2026-01-01T00:00Z --to 2026-01-01T03:00Z --yes", "jobs.backfill"),
    "node drain": Command("worker-1", "nodes.drain"),
    "queue pause": Command("default", "queues.pause"),
    "queue resume": Command("default", "queues.resume"),
    "queue share": Command("default a=2", "queues.share"),
    "secret list": READS,
    "secret rm": Command("OLD", "secrets.remove", server=False),
    "secret rotate": Command("", "secrets.rotate", server=False),
    "secret set": Command("DB_PASSWORD", "secrets.set", server=False, typed="hush\n"),
    "keys create": Command("ci", "keys.create", server=False),
    "keys list": READS,
    "keys revoke": Command("{key}", "keys.revoke", server=False),
    "keys show": READS,
    "sessions end": Command("{session}", "sessions.end"),
    "sessions link": Command("http://127.0.0.1:7411", "sessions.link", server=False),
    "sessions list": READS,
    "users create": Command("bob", "users.create", server=False, typed=f"{PASSWORD}\n"),
    "users disable": Command("ann", "users.disable", server=False),
    "users edit": Command("ann --role operator", "users.change", server=False),
    "users enable": Command("ann", "users.enable", server=False),
    "users list": READS,
    "users password": Command("ann", "users.password", server=False, typed=f"{PASSWORD}\n"),
    "users rm": Command("ann", "users.delete", server=False),
    "login": "its route on the server records it",
    "logout": "its route on the server records it",
    "whoami": READS,
}
"""For each command: how to call it and the verb of its entry, or the reason why it has none."""
