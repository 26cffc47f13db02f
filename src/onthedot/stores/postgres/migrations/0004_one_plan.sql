-- An index serves only the statements that it is for, whatever the statistics: docs/design/store-moves.md, "Plans".

-- Partial: the server uses it only for statements that name its predicate, which holds for each run.
-- finding: live runs in the order in which they are shown.
DROP INDEX runs_due;
CREATE INDEX runs_due ON runs (due_at, id) WHERE due_at <= 4611686018427387904;

-- The same; the predicate holds for each run that waits at a gate.
-- gates: how many could pass at the most.
DROP INDEX runs_blocked_most;
CREATE INDEX runs_blocked_most ON runs (blocked_on, blocked_capacity)
    WHERE blocked_on IS NOT NULL AND blocked_capacity IS NOT NULL;

-- Over +run_id: the primary key (key, run_id) cannot serve a search for that.
-- gates: what a run holds.
DROP INDEX gate_holders_run;
CREATE INDEX gate_holders_run ON gate_holders ((+run_id));
