-- The first full schema.
--
-- Instants are integers: microseconds since 1970-01-01 UTC. Foreign keys are not declared: the driver is the only
-- writer, and a check per run would be paid on every attempt. Few indexes, because their dirty pages are what a
-- commit costs; each says whom it serves.

CREATE TABLE meta (  -- counters that only grow: the last job id, run id, … given out; hints of each kind
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('job', 0), ('run', 0), ('fence', 0), ('document', 0);

-- ── what is to be done ──────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE jobs (  -- small rows: reserve and arm look at one per run
    id              INTEGER PRIMARY KEY,
    namespace       TEXT NOT NULL,
    name            TEXT NOT NULL,
    owner           TEXT NOT NULL,
    state           TEXT NOT NULL,
    revision        INTEGER NOT NULL,  -- the current one
    task            TEXT NOT NULL,     -- what a worker must be able to do
    queue           TEXT NOT NULL,
    route           TEXT NOT NULL,     -- where its runs wait, see model/route.py
    priority        INTEGER NOT NULL,
    share           TEXT NOT NULL,     -- the argument by whose value its queue is shared, or empty
    gated           INTEGER NOT NULL,  -- 1: its runs have gates to pass, and are armed one by one
    definition_hash TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    pause_reason    TEXT NOT NULL DEFAULT '',
    paused_until    INTEGER
) STRICT;

CREATE INDEX jobs_name ON jobs (namespace, name);
-- finding: the jobs of a name in any namespace, and of an owner.
CREATE INDEX jobs_named ON jobs (name);
CREATE INDEX jobs_owner ON jobs (owner, namespace, name);
-- A name is taken once; a deleted job gives it back.
CREATE UNIQUE INDEX jobs_living ON jobs (namespace, name) WHERE state <> 'deleted';
-- the resumer: pauses that have an end.
CREATE INDEX jobs_paused ON jobs (paused_until) WHERE state = 'paused';

CREATE TABLE job_revisions (  -- every definition that ever was
    job_id     INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    definition TEXT NOT NULL,  -- canonical JSON
    created_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, revision)
) STRICT;

CREATE TABLE schedules (
    job_id      INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    bucket      INTEGER NOT NULL,  -- 0 to 1023, from the job's id: which shard plans it
    origin      INTEGER NOT NULL,  -- when it was created
    watermark   INTEGER NOT NULL,  -- every slot up to here has a fate
    next_at     INTEGER,           -- NULL: no further slot, or a fixed delay whose run is open
    last_end    INTEGER,           -- when the last run of a fixed delay ended
    delay       INTEGER,           -- of a fixed delay
    armed_to    INTEGER,           -- the newest slot that has its fate before its instant
    zoned       INTEGER NOT NULL DEFAULT 0,  -- 1: its instants hang on the rules of a time zone
    PRIMARY KEY (job_id, schedule_id)
) STRICT, WITHOUT ROWID;

-- The planner: what is due next in a group of 64 buckets, in order, with the shard to be told from the index alone. One
-- shard, which is the rule, is 16 range scans that are merged (17 µs when nothing is due; in groups of 16, 140 µs).
CREATE INDEX schedules_due ON schedules (bucket / 64, next_at, job_id, schedule_id, bucket) WHERE next_at IS NOT NULL;
-- A term with other zone data: what hangs on it.
CREATE INDEX schedules_zoned ON schedules (job_id, schedule_id, bucket) WHERE zoned = 1;

CREATE TABLE exceptions (  -- slots whose fate was given ahead
    job_id      INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    slot_at     INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    recorded    INTEGER NOT NULL,  -- 1: the ledger has its entry, a skipped run or a skip
    run_id      INTEGER,           -- the run that takes its place
    PRIMARY KEY (job_id, schedule_id, slot_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE dependencies (  -- who runs after whom: one row for each parent of each job that does
    namespace TEXT NOT NULL,
    parent    TEXT NOT NULL,     -- by name: it need not be there yet
    child_id  INTEGER NOT NULL,
    every_run INTEGER NOT NULL,  -- 1: after each run that counts, whichever parent's it is
    counts    TEXT NOT NULL,     -- which runs count: success, failure or either
    run_id    INTEGER,           -- the newest of the parent's that counts, and has not been used
    ended_at  INTEGER,
    PRIMARY KEY (namespace, parent, child_id)
) STRICT, WITHOUT ROWID;

-- put_job: the parents of a job; finish: whether its set is complete.
CREATE INDEX dependencies_child ON dependencies (child_id, run_id);

-- ── what is going on: live runs only ────────────────────────────────────────────────────────────────────────────

CREATE TABLE runs (
    id          INTEGER PRIMARY KEY,  -- in the order of planning, so that neighbours in time are neighbours on disk
    job_id      INTEGER NOT NULL,
    state       TEXT NOT NULL,        -- scheduled, reserved or running
    route       TEXT NOT NULL,        -- where it waits: its queue, and what it needs of a worker
    priority    INTEGER NOT NULL,     -- 0 low to 3 critical
    rank        INTEGER,              -- its turn, once it is due in a queue that is shared fairly
    queue       TEXT NOT NULL,
    share       TEXT NOT NULL,        -- whose turn it takes there
    slot_at     INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    ready_at    INTEGER NOT NULL,     -- may be taken from here on: due, or the reservation's lapse
    expires_at  INTEGER,              -- NULL once armed: who was asked for is not missed
    attempt     INTEGER NOT NULL,     -- how many were armed; 0: never
    failures    INTEGER NOT NULL,
    recoveries  INTEGER NOT NULL,
    delayed     INTEGER NOT NULL,     -- 1: the next slot of its fixed delay counts from its end
    lease_id    TEXT,                 -- from here to armed_at: of the present attempt, NULL while scheduled (but the
                                      -- lease id stays while a run that a rate has delayed waits)
    fence       INTEGER,
    incarnation TEXT,
    revision    INTEGER,
    reserved_at INTEGER,
    armed_at    INTEGER,
    created_at  INTEGER NOT NULL,
    trigger     TEXT NOT NULL,
    target      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    blocked_on  TEXT,                 -- the gate it waits at: its key, and how it is to be held
    blocked_capacity INTEGER,
    blocked_until_end INTEGER,
    granted_at  INTEGER,              -- the instant that a rate has handed out, until an attempt has used it
    granted_by  TEXT,                 -- the key of that rate
    cancel_wanted TEXT,               -- why the running attempt is asked to stop
    origin      INTEGER,              -- the run that this one repeats
    args        TEXT                  -- canonical JSON; NULL: the job's own
) STRICT;

-- A run's key. The slot before the trigger: submitted runs have random triggers, and would land anywhere (107 pages
-- per commit of 200 runs; with the trigger first, 205). The job before both: edits and listings ask for one job.
CREATE UNIQUE INDEX runs_key ON runs (job_id, slot_at, trigger, target);
-- reserve: one range scan per route and priority, in the order in which runs are given out.
CREATE INDEX runs_ready ON runs (route, priority, ready_at) WHERE state <> 'running' AND rank IS NULL;
-- … and one per route of queues that are shared fairly.
CREATE INDEX runs_ranked ON runs (route, rank) WHERE rank IS NOT NULL;
-- expire: what nobody asked for in time.
CREATE INDEX runs_expiring ON runs (expires_at) WHERE expires_at IS NOT NULL;
-- finding: live runs in the order in which they are shown.
CREATE INDEX runs_due ON runs (due_at);
-- held, leave, the reaper: what an incarnation holds; finish: which of it are runs of fixed delays.
CREATE INDEX runs_held ON runs (incarnation, delayed) WHERE incarnation IS NOT NULL;

-- gates: who waits at one, in the order in which it will pass to them.
CREATE INDEX runs_blocked ON runs (blocked_on, due_at, id, blocked_capacity) WHERE blocked_on IS NOT NULL;

CREATE TABLE queues (  -- what somebody has said about a queue; every other name is one, too
    name         TEXT PRIMARY KEY,
    paused_at    INTEGER,
    reason       TEXT NOT NULL DEFAULT '',
    weights      TEXT,                        -- JSON: it is shared fairly, and how
    virtual_time INTEGER NOT NULL DEFAULT 0   -- the latest turn that was taken
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (  -- in queues that are shared fairly: where the last turn of each share ends
    queue    TEXT NOT NULL,
    share    TEXT NOT NULL,
    priority INTEGER NOT NULL,
    ends     INTEGER NOT NULL,
    PRIMARY KEY (queue, share, priority)
) STRICT, WITHOUT ROWID;

CREATE TABLE gate_holders (
    key       TEXT NOT NULL,
    run_id    INTEGER NOT NULL,
    until_end INTEGER NOT NULL,  -- 1: kept through back-off, to the terminal state
    PRIMARY KEY (key, run_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX gate_holders_run ON gate_holders (run_id);

CREATE TABLE rates (  -- one row per key that was busy of late
    key   TEXT PRIMARY KEY,
    tat   INTEGER NOT NULL,  -- when the next start would come if all were evenly spaced: tat + part/parts
    part  INTEGER NOT NULL,
    parts INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- the recount: rates that have been idle are forgotten.
CREATE INDEX rates_tat ON rates (tat);

CREATE TABLE submit_keys (  -- the same key is the same run
    job_id     INTEGER NOT NULL,
    key        TEXT NOT NULL,
    run_id     INTEGER NOT NULL,
    args       TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, key)
) STRICT, WITHOUT ROWID;

-- pruning: a key goes with its run.
CREATE INDEX submit_keys_run ON submit_keys (run_id);

-- ── what has been ───────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE history (  -- finished runs
    id         INTEGER PRIMARY KEY,
    job_id     INTEGER NOT NULL,
    state      TEXT NOT NULL,  -- succeeded, dead, cancelled, lost or skipped
    slot_at    INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    failures   INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    armed_at   INTEGER,
    started_at INTEGER,
    ended_at   INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    priority   INTEGER NOT NULL,
    trigger    TEXT NOT NULL,
    target     TEXT NOT NULL,
    reason     TEXT NOT NULL,
    origin     INTEGER,
    args       TEXT,
    error      TEXT,
    result     TEXT,
    settled    TEXT  -- what was done about a dead one; NULL: nothing
) STRICT;

CREATE INDEX history_ended ON history (ended_at);
CREATE INDEX history_job_ended ON history (job_id, ended_at);
-- finding: what did not succeed.
CREATE INDEX history_unsuccessful ON history (ended_at) WHERE state <> 'succeeded';
-- The box of dead letters: it costs nothing where nothing dies.
CREATE INDEX history_dead ON history (ended_at) WHERE state = 'dead' AND settled IS NULL;
-- submit, asked again: the same run, also when it has ended. Slots need no such index, they have their watermark.
-- The instant first: what ends together was due together (5 more pages per commit of 200 runs; led by the job, 56).
CREATE INDEX history_submitted ON history (slot_at, job_id, trigger) WHERE trigger NOT GLOB 'schedule:*';

CREATE TABLE attempts (  -- ended attempts, with their five instants
    run_id      INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    lease_id    TEXT NOT NULL,
    fence       INTEGER NOT NULL,
    node        TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    outcome     TEXT NOT NULL,
    error       TEXT,
    due_at      INTEGER NOT NULL,
    reserved_at INTEGER NOT NULL,
    armed_at    INTEGER NOT NULL,
    started_at  INTEGER,  -- NULL: user code never began
    ended_at    INTEGER NOT NULL,
    PRIMARY KEY (run_id, attempt)
) STRICT, WITHOUT ROWID;

-- finding: what a node has done, newest first. Each node's entries are written at one end.
CREATE INDEX attempts_node ON attempts (node, ended_at, run_id, attempt);

CREATE TABLE checkpoints (  -- how far runs have come: the newest one of each, kept as long as the run
    run_id     INTEGER PRIMARY KEY,
    revision   INTEGER NOT NULL,  -- counts them, through all attempts
    value      TEXT NOT NULL,     -- JSON
    written_at INTEGER NOT NULL
) STRICT;

CREATE TABLE notes (  -- what attempts tell while they run
    run_id   INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    number   INTEGER NOT NULL,  -- of the newest note: an older one comes too late
    progress TEXT,              -- JSON: how much is done, and of how much
    log      TEXT,              -- bounded by who writes it
    PRIMARY KEY (run_id, attempt)
) STRICT;

CREATE TABLE skips (  -- ranges of slots that will not run
    id          INTEGER PRIMARY KEY,
    job_id      INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    recorded_at INTEGER NOT NULL
) STRICT;

CREATE INDEX skips_last ON skips (job_id, schedule_id, last);

CREATE TABLE daily_counts (  -- what is left of history once it has been pruned
    job_id INTEGER NOT NULL,
    day    INTEGER NOT NULL,  -- days since 1970-01-01 UTC
    state  TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (job_id, day, state)
) STRICT, WITHOUT ROWID;

-- ── who lives, who leads ────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE nodes (  -- one row per incarnation
    number        INTEGER PRIMARY KEY,
    incarnation   TEXT NOT NULL UNIQUE,
    id            TEXT NOT NULL,
    host          TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    roles         TEXT NOT NULL,  -- JSON
    offers        TEXT NOT NULL,  -- JSON: the queues, labels and tasks that its worker serves, and its seats
    draining      INTEGER NOT NULL DEFAULT 0,  -- 1: it is to take no more work
    registered_at INTEGER NOT NULL,
    ttl           INTEGER NOT NULL,  -- of its lease, as it was last renewed
    lease_until   INTEGER NOT NULL,
    left_at       INTEGER,
    ended         INTEGER NOT NULL,  -- 1: for good; it left, or its runs were taken
    reaped        INTEGER NOT NULL,  -- how many runs were taken from it
    void_below    INTEGER NOT NULL DEFAULT 0, -- asks with a smaller number give nothing out
    tzdata        TEXT NOT NULL DEFAULT ''  -- the version of its zone data
) STRICT;

-- drain, expire: the incarnations of a node.
CREATE INDEX nodes_id ON nodes (id);

CREATE TABLE layouts (  -- how the buckets are divided; the newest counts
    version INTEGER PRIMARY KEY,
    shards  INTEGER NOT NULL,
    since   INTEGER NOT NULL
) STRICT;

INSERT INTO layouts (version, shards, since) VALUES (1, 1, 0);

CREATE TABLE terms (  -- the newest term of each shard
    shard       INTEGER PRIMARY KEY,
    number      INTEGER NOT NULL,
    incarnation TEXT NOT NULL,     -- empty: nobody's, since the layout was changed
    until       INTEGER NOT NULL,
    ttl         INTEGER NOT NULL,  -- as it was last renewed
    layout      INTEGER NOT NULL,
    tzdata      TEXT NOT NULL,     -- the version of its node's zone data
    zones       TEXT NOT NULL      -- the one that the shard's next slots are computed with
) STRICT;

CREATE TABLE term_history (  -- every term that ever was
    shard       INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    incarnation TEXT NOT NULL,
    began_at    INTEGER NOT NULL,
    PRIMARY KEY (shard, number)
) STRICT, WITHOUT ROWID;

-- ── the cold records ────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE documents (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL,  -- from one sequence: never given out twice
    body       TEXT NOT NULL,     -- JSON
    written_at INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT;

CREATE TABLE entries (  -- lists that only grow
    kind       TEXT NOT NULL,
    number     INTEGER NOT NULL,
    key        TEXT,           -- of its caller, who may have to ask again
    body       TEXT NOT NULL,  -- JSON
    written_at INTEGER NOT NULL,
    PRIMARY KEY (kind, number)
) STRICT;

CREATE UNIQUE INDEX entries_key ON entries (kind, key) WHERE key IS NOT NULL;
