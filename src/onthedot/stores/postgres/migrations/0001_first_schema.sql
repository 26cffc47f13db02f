-- The first full schema. Names are looked up in the schema that the store's URL names.
--
-- Instants are integers: microseconds since 1970-01-01 UTC, by the server's clock. Foreign keys are not declared: the
-- driver is the only writer, and a check per run would be paid on every attempt. Texts that are sorted or searched
-- compare by bytes (COLLATE "C"), as Python does. Each index says whom it serves.

CREATE SEQUENCE job_ids;
CREATE SEQUENCE run_ids;
CREATE SEQUENCE fences;  -- one for the whole store: they only grow
CREATE SEQUENCE document_versions;

-- ── what is to be done ──────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE jobs (  -- small rows: reserve and arm look at one per run
    id              bigint PRIMARY KEY,
    namespace       text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    owner           text NOT NULL,
    state           text NOT NULL,
    revision        integer NOT NULL,  -- the current one
    task            text COLLATE "C" NOT NULL,  -- what a worker must be able to do
    queue           text COLLATE "C" NOT NULL,
    route           text COLLATE "C" NOT NULL,  -- where its runs wait, see model/route.py
    priority        smallint NOT NULL,
    share           text NOT NULL,     -- the argument by whose value its queue is shared, or empty
    gated           boolean NOT NULL,  -- its runs have gates to pass, and are armed one by one
    definition_hash text NOT NULL,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    pause_reason    text NOT NULL DEFAULT '',
    paused_until    bigint
) WITH (fillfactor = 80);

CREATE INDEX jobs_name ON jobs (namespace, name);
-- finding: the jobs of a name in any namespace, and of an owner.
CREATE INDEX jobs_named ON jobs (name);
CREATE INDEX jobs_owner ON jobs (owner, namespace, name);
-- A name is taken once; a deleted job gives it back.
CREATE UNIQUE INDEX jobs_living ON jobs (namespace, name) WHERE state <> 'deleted';
-- the resumer: pauses that have an end.
CREATE INDEX jobs_paused ON jobs (paused_until) WHERE state = 'paused';

CREATE TABLE job_revisions (  -- every definition that ever was
    job_id     bigint NOT NULL,
    revision   integer NOT NULL,
    definition text NOT NULL,  -- canonical JSON
    created_at bigint NOT NULL,
    PRIMARY KEY (job_id, revision)
);

CREATE TABLE schedules (
    job_id      bigint NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    bucket      smallint NOT NULL,  -- 0 to 1023, from the job's id: which shard plans it
    origin      bigint NOT NULL,    -- when it was created
    watermark   bigint NOT NULL,    -- every slot up to here has a fate
    next_at     bigint,             -- NULL: no further slot, or a fixed delay whose run is open
    last_end    bigint,             -- when the last run of a fixed delay ended
    delay       bigint,             -- of a fixed delay
    armed_to    bigint,             -- the newest slot that has its fate before its instant
    zoned       boolean NOT NULL DEFAULT false,  -- its instants hang on the rules of a time zone
    PRIMARY KEY (job_id, schedule_id)
);

-- The planner: what is due next, in order, with the bucket to be told from the index alone.
CREATE INDEX schedules_due ON schedules (next_at, job_id, schedule_id, bucket) WHERE next_at IS NOT NULL;
-- A term with other zone data: what hangs on it.
CREATE INDEX schedules_zoned ON schedules (job_id, schedule_id, bucket) WHERE zoned;

CREATE TABLE exceptions (  -- slots whose fate was given ahead
    job_id      bigint NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    slot_at     bigint NOT NULL,
    reason      text NOT NULL,
    recorded    boolean NOT NULL,  -- the ledger has its entry, a skipped run or a skip
    run_id      bigint,            -- the run that takes its place
    PRIMARY KEY (job_id, schedule_id, slot_at)
);

CREATE TABLE dependencies (  -- who runs after whom: one row for each parent of each job that does
    namespace text COLLATE "C" NOT NULL,
    parent    text COLLATE "C" NOT NULL,  -- by name: it need not be there yet
    child_id  bigint NOT NULL,
    every_run boolean NOT NULL,  -- after each run that counts, whichever parent's it is
    counts    text NOT NULL,     -- which runs count: success, failure or either
    run_id    bigint,            -- the newest of the parent's that counts, and has not been used
    ended_at  bigint,
    PRIMARY KEY (namespace, parent, child_id)
);

-- put_job: the parents of a job; finish: whether its set is complete.
CREATE INDEX dependencies_child ON dependencies (child_id, parent);

-- ── what is going on: live runs only ────────────────────────────────────────────────────────────────────────────

CREATE TABLE runs (
    id          bigint PRIMARY KEY,   -- in the order of planning
    job_id      bigint NOT NULL,
    slot_at     bigint NOT NULL,
    due_at      bigint NOT NULL,
    ready_at    bigint NOT NULL,      -- may be taken from here on: due, or the reservation's lapse
    expires_at  bigint,               -- NULL once armed: who was asked for is not missed
    rank        bigint,               -- its turn, once it is due in a queue that is shared fairly
    fence       bigint,
    reserved_at bigint,
    armed_at    bigint,
    created_at  bigint NOT NULL,
    revision    integer,
    attempt     integer NOT NULL DEFAULT 0,  -- how many were armed; 0: never
    failures    integer NOT NULL DEFAULT 0,
    recoveries  integer NOT NULL DEFAULT 0,
    priority    smallint NOT NULL,    -- 0 low to 3 critical
    delayed     boolean NOT NULL,     -- the next slot of its fixed delay counts from its end
    state       text COLLATE "C" NOT NULL DEFAULT 'scheduled',  -- scheduled, reserved or running
    route       text COLLATE "C" NOT NULL,   -- where it waits: its queue, and what it needs of a worker
    queue       text COLLATE "C" NOT NULL,
    share       text NOT NULL,        -- whose turn it takes there
    trigger     text COLLATE "C" NOT NULL,
    target      text COLLATE "C" NOT NULL,
    reason      text NOT NULL DEFAULT '',
    lease_id    text COLLATE "C",     -- of the present attempt, like fence, incarnation, revision, reserved_at and
    incarnation text COLLATE "C",     -- armed_at: NULL while scheduled (but the lease id stays while a run that a
                                      -- rate has delayed waits)
    blocked_on  text COLLATE "C",     -- the gate it waits at: its key, and how it is to be held
    blocked_capacity  integer,
    blocked_until_end boolean,
    granted_at  bigint,               -- the instant that a rate has handed out, until an attempt has used it
    granted_by  text COLLATE "C",     -- the key of that rate
    cancel_wanted text,               -- why the running attempt is asked to stop
    origin      bigint,               -- the run that this one repeats
    args        text                  -- canonical JSON; NULL: the job's own
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2);

-- Every row is written, armed and deleted once: an index is paid for three times. There is none over held rows on
-- purpose: the planner takes it for small, and walks through its dead entries (a sixth of the rate when measured).

-- A run's key.
CREATE UNIQUE INDEX runs_key ON runs (job_id, slot_at, trigger, target);
-- reserve: one range scan per route and priority, in the order in which runs are given out.
CREATE INDEX runs_ready ON runs (route, priority, ready_at, id) WHERE state <> 'running' AND rank IS NULL;
-- … and one per route of queues that are shared fairly.
CREATE INDEX runs_ranked ON runs (route, rank, id) WHERE rank IS NOT NULL;
-- expire: what nobody asked for in time.
CREATE INDEX runs_expiring ON runs (expires_at) WHERE expires_at IS NOT NULL;
-- finding: live runs in the order in which they are shown.
CREATE INDEX runs_due ON runs (due_at, id);
-- gates: who waits at one, in the order in which it will pass to them.
CREATE INDEX runs_blocked ON runs (blocked_on, due_at, id) WHERE blocked_on IS NOT NULL;
-- … and how many could pass at the most: a gate that is full need not look at those who wait.
CREATE INDEX runs_blocked_most ON runs (blocked_on, blocked_capacity) WHERE blocked_on IS NOT NULL;
-- beat: which attempts are asked to stop.
CREATE INDEX runs_unwanted ON runs (incarnation) WHERE cancel_wanted IS NOT NULL;

CREATE TABLE queues (  -- what somebody has said about a queue; every other name is one, too
    name         text COLLATE "C" PRIMARY KEY,
    paused_at    bigint,
    reason       text NOT NULL DEFAULT '',
    weights      text,                       -- JSON: it is shared fairly, and how
    virtual_time bigint NOT NULL DEFAULT 0   -- the latest turn that was taken
);

CREATE TABLE turns (  -- in queues that are shared fairly: where the last turn of each share ends
    queue    text COLLATE "C" NOT NULL,
    share    text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    ends     bigint NOT NULL,
    PRIMARY KEY (queue, share, priority)
);

CREATE TABLE gate_holders (
    key       text COLLATE "C" NOT NULL,
    run_id    bigint NOT NULL,
    until_end boolean NOT NULL,  -- kept through back-off, to the terminal state
    PRIMARY KEY (key, run_id)
);

CREATE INDEX gate_holders_run ON gate_holders (run_id);

CREATE TABLE rates (  -- one row per key that was busy of late
    key   text COLLATE "C" PRIMARY KEY,
    tat   bigint NOT NULL,  -- when the next start would come if all were evenly spaced: tat + part/parts
    part  bigint NOT NULL,
    parts bigint NOT NULL
);

-- the recount: rates that have been idle are forgotten.
CREATE INDEX rates_tat ON rates (tat);

CREATE TABLE submit_keys (  -- the same key is the same run
    job_id     bigint NOT NULL,
    key        text COLLATE "C" NOT NULL,
    run_id     bigint NOT NULL,
    args       text,
    created_at bigint NOT NULL,
    PRIMARY KEY (job_id, key)
);

-- pruning: a key goes with its run.
CREATE INDEX submit_keys_run ON submit_keys (run_id);

-- ── what has been ───────────────────────────────────────────────────────────────────────────────────────────────

-- Both by the month in which they ended. Partitions are made ahead, and when one is missing (partitions.py); those
-- that retention has emptied are dropped.

CREATE TABLE history (  -- finished runs
    id         bigint NOT NULL,
    job_id     bigint NOT NULL,
    slot_at    bigint NOT NULL,
    due_at     bigint NOT NULL,
    created_at bigint NOT NULL,
    armed_at   bigint,
    started_at bigint,
    ended_at   bigint NOT NULL,
    attempts   integer NOT NULL,
    failures   integer NOT NULL,
    recoveries integer NOT NULL,
    priority   smallint NOT NULL,
    state      text COLLATE "C" NOT NULL,  -- succeeded, dead, cancelled, lost or skipped
    queue      text COLLATE "C" NOT NULL,
    trigger    text COLLATE "C" NOT NULL,
    target     text COLLATE "C" NOT NULL,
    reason     text NOT NULL,
    origin     bigint,
    args       text,
    error      text,
    result     text,
    settled    text,  -- what was done about a dead one; NULL: nothing
    PRIMARY KEY (id, ended_at)
) PARTITION BY RANGE (ended_at);

CREATE INDEX history_ended ON history (ended_at, id);
CREATE INDEX history_job_ended ON history (job_id, ended_at, id);
-- finding: what did not succeed.
CREATE INDEX history_unsuccessful ON history (ended_at, id) WHERE state <> 'succeeded';
-- The box of dead letters: it costs nothing where nothing dies.
CREATE INDEX history_dead ON history (ended_at, id) WHERE state = 'dead' AND settled IS NULL;
-- submit, asked again: the same run, also when it has ended. Slots need no such index, they have their watermark.
CREATE INDEX history_submitted ON history (slot_at, job_id, trigger) WHERE trigger NOT LIKE 'schedule:%';

CREATE TABLE attempts (  -- ended attempts, with their five instants
    run_id      bigint NOT NULL,
    fence       bigint NOT NULL,
    due_at      bigint NOT NULL,
    reserved_at bigint NOT NULL,
    armed_at    bigint NOT NULL,
    started_at  bigint,  -- NULL: user code never began
    ended_at    bigint NOT NULL,
    attempt     integer NOT NULL,
    revision    integer NOT NULL,
    lease_id    text COLLATE "C" NOT NULL,
    node        text NOT NULL,
    outcome     text COLLATE "C" NOT NULL,
    error       text,
    PRIMARY KEY (run_id, attempt, ended_at)
) PARTITION BY RANGE (ended_at);

-- finding: what a node has done, newest first. Each node's entries are written at one end.
CREATE INDEX attempts_node ON attempts (node, ended_at, run_id, attempt);

CREATE TABLE checkpoints (  -- how far runs have come: the newest one of each, kept as long as the run
    run_id     bigint PRIMARY KEY,
    revision   bigint NOT NULL,  -- counts them, through all attempts
    value      text NOT NULL,    -- JSON
    written_at bigint NOT NULL
);

CREATE TABLE notes (  -- what attempts tell while they run
    run_id   bigint NOT NULL,
    attempt  integer NOT NULL,
    number   bigint NOT NULL,  -- of the newest note: an older one comes too late
    progress text,             -- JSON: how much is done, and of how much
    log      text,             -- bounded by who writes it
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE skips (  -- ranges of slots that will not run
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id      bigint NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    first       bigint NOT NULL,
    last        bigint NOT NULL,
    count       bigint NOT NULL,
    reason      text NOT NULL,
    recorded_at bigint NOT NULL
);

CREATE INDEX skips_last ON skips (job_id, schedule_id, last);

CREATE TABLE daily_counts (  -- what is left of history once it has been pruned
    job_id bigint NOT NULL,
    day    integer NOT NULL,  -- days since 1970-01-01 UTC
    state  text COLLATE "C" NOT NULL,
    count  bigint NOT NULL,
    PRIMARY KEY (job_id, day, state)
);

-- ── who lives, who leads ────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE nodes (  -- one row per incarnation
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incarnation   text COLLATE "C" NOT NULL UNIQUE,
    id            text COLLATE "C" NOT NULL,
    host          text NOT NULL,
    pid           bigint NOT NULL,
    roles         text[] NOT NULL,
    offers        text NOT NULL,  -- JSON: the queues, labels and tasks that its worker serves, and its seats
    draining      boolean NOT NULL DEFAULT false,  -- it is to take no more work
    registered_at bigint NOT NULL,
    ttl           bigint NOT NULL,  -- of its lease, as it was last renewed
    lease_until   bigint NOT NULL,
    left_at       bigint,
    ended         boolean NOT NULL DEFAULT false,  -- for good; it left, or its runs were taken
    reaped        bigint NOT NULL DEFAULT 0,       -- how many runs were taken from it
    void_below    bigint NOT NULL DEFAULT 0,       -- asks with a smaller number give nothing out
    empty_at      bigint,  -- the lease_until at which somebody looked, and found that it runs nothing
    tzdata        text COLLATE "C" NOT NULL DEFAULT ''  -- the version of its zone data
) WITH (fillfactor = 50);

-- drain, expire: the incarnations of a node.
CREATE INDEX nodes_id ON nodes (id);

CREATE TABLE layouts (  -- how the buckets are divided; the newest counts
    version integer PRIMARY KEY,
    shards  integer NOT NULL,
    since   bigint NOT NULL
);

INSERT INTO layouts (version, shards, since) VALUES (1, 1, 0);

CREATE TABLE terms (  -- the newest term of each shard
    shard       integer PRIMARY KEY,
    number      bigint NOT NULL,
    incarnation text COLLATE "C" NOT NULL,  -- empty: nobody's, since the layout was changed
    until       bigint NOT NULL,
    ttl         bigint NOT NULL,   -- as it was last renewed
    layout      integer NOT NULL,
    tzdata      text NOT NULL,     -- the version of its node's zone data
    zones       text NOT NULL      -- the one that the shard's next slots are computed with
) WITH (fillfactor = 50);

CREATE TABLE term_history (  -- every term that ever was
    shard       integer NOT NULL,
    number      bigint NOT NULL,
    incarnation text NOT NULL,
    began_at    bigint NOT NULL,
    PRIMARY KEY (shard, number)
);

-- ── the cold records ────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE documents (
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,  -- from one sequence: never given out twice
    body       text NOT NULL,    -- JSON
    written_at bigint NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE TABLE entries (  -- lists that only grow
    kind       text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    key        text COLLATE "C",  -- of its caller, who may have to ask again
    body       text NOT NULL,     -- JSON
    written_at bigint NOT NULL,
    PRIMARY KEY (kind, number)
);

CREATE UNIQUE INDEX entries_key ON entries (kind, key) WHERE key IS NOT NULL;
