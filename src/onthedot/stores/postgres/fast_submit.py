"""PostgreSQL's fast path for `submit`: stores new runs in one statement, without BEGIN and COMMIT.

It stores all of the runs or none. It stores none if a job was edited, deleted or locked by an editor, or if its queue
is shared fairly. Then the move stores them: it waits for locks and reports errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import NEVER, Micros
from onthedot.model.run import NewRun
from onthedot.stores.sql.fragments import numbers
from onthedot.stores.sql.port import sql

MOST = 1000
"""The most runs of one statement."""

# Until the statement is committed, nobody edits or pauses the jobs. It does not wait for an editor, because others may
# wait behind this statement.
SUBMIT = sql(f"""
WITH job AS MATERIALIZED (
    SELECT j.id, j.route, j.priority, j.queue, j.state = 'paused' AS is_paused
    FROM unnest($1::bigint[], $2::integer[]) wanted (id, revision)
    JOIN jobs j ON j.id BETWEEN +wanted.id AND +wanted.id AND j.revision = coalesce(wanted.revision, j.revision)
    WHERE coalesce(j.state <> 'deleted' AND j.share = '', false)
    FOR KEY SHARE OF j SKIP LOCKED
)
INSERT INTO runs (id, job_id, trigger, slot_at, due_at, ready_at, expires_at, args, delayed, route, priority, queue,
                  share, target, created_at)
SELECT nextval('run_ids'), new.job_id, new.trigger, new.slot_at, new.due_at,
       CASE WHEN job.is_paused THEN {NEVER} ELSE new.due_at END, CASE WHEN NOT job.is_paused THEN new.expires_at END,
       new.args, false, job.route, job.priority, job.queue, '', '', coalesce($9, {{now}})
FROM unnest($3::text::bigint[], $4::text[], $5::text::bigint[], $6::text::bigint[], $7::text::bigint[], $8::text[])
    new (job_id, trigger, slot_at, due_at, expires_at, args)
JOIN job ON job.id = new.job_id
WHERE (SELECT count(*) FROM job) = cardinality($1::bigint[])
ON CONFLICT (job_id, slot_at, trigger, target) DO NOTHING
RETURNING id, trigger
""")  # noqa: S608 - constants of this file


def fits(runs: Sequence[NewRun]) -> bool:
    """Return whether the statement can store these runs: it compares one revision for each job."""
    revisions = {(run.job_id, run.revision) for run in runs}
    return 0 < len(runs) <= MOST and len({job_id for job_id, _ in revisions}) == len(revisions)


def columns(runs: Sequence[NewRun], now: Micros | None) -> list[object]:
    """Return the values of `SUBMIT`."""
    jobs = {run.job_id: run.revision for run in runs}
    return [
        list(jobs),
        list(jobs.values()),
        numbers(run.job_id for run in runs),
        [run.trigger for run in runs],
        numbers(run.instant for run in runs),
        numbers(run.due_at for run in runs),
        numbers("NULL" if run.expires_at is None else run.expires_at for run in runs),
        [run.args for run in runs],
        now,
    ]
