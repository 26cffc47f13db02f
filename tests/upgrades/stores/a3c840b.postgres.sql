CREATE SCHEMA onthedot;
SET search_path = onthedot;
CREATE TABLE migrations (number integer PRIMARY KEY, name text NOT NULL);
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

CREATE TABLE attempts_2026_01 PARTITION OF attempts FOR VALUES FROM ('1767225600000000') TO ('1769904000000000');
CREATE TABLE attempts_2026_02 PARTITION OF attempts FOR VALUES FROM ('1769904000000000') TO ('1772323200000000');
CREATE TABLE history_2026_01 PARTITION OF history FOR VALUES FROM ('1767225600000000') TO ('1769904000000000');
CREATE TABLE history_2026_02 PARTITION OF history FOR VALUES FROM ('1769904000000000') TO ('1772323200000000');
TRUNCATE attempts, checkpoints, daily_counts, dependencies, documents, entries, exceptions, gate_holders, history, job_revisions, jobs, layouts, migrations, nodes, notes, queues, rates, runs, schedules, skips, submit_keys, term_history, terms, turns;
INSERT INTO attempts (run_id, fence, due_at, reserved_at, armed_at, started_at, ended_at, attempt, revision, lease_id, node, outcome, error) VALUES
('10', '5', '1767225621000000', '1767225621000000', '1767225621000000', '1767225621000000', '1767225621250000', '1', '1', '0efdd8acf3bd41ee1f0f-0', 'old-1', 'succeeded', NULL),
('13', '6', '1767225650000000', '1767225650000000', '1767225650000000', '1767225650000000', '1767225650250000', '1', '1', 'f84b9ab68e68f3456e46-0', 'old-1', 'failed', 'ValueError: row 17 is bad'),
('14', '7', '1767225650250000', '1767225650250000', '1767225650250000', '1767225650250000', '1767225650500000', '1', '1', '4737cbe79bd47a1d4b9e-0', 'old-1', 'failed', 'ValueError: row 99 is bad'),
('15', '8', '1767225650500000', '1767225650500000', '1767225650500000', '1767225650500000', '1767225650750000', '1', '1', 'f1eeff693a1e176aa4b1-0', 'old-1', 'failed', 'OSError: no disk'),
('16', '9', '1767225650750000', '1767225650750000', '1767225650750000', '1767225650750000', '1767225651000000', '1', '1', 'a4b4704e7c86bab25cb9-0', 'old-1', 'failed', 'KeyError: ''x'''),
('2', '17', '1767225600000001', '1767225910000000', '1767225910000000', '1767225910000000', '1767225910250000', '1', '1', '53da0363513e57f17778-0', 'old-1', 'succeeded', NULL),
('22', '14', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660250000', '1', '1', 'a8d200d6b2d5032acbda-0', 'old-1', 'succeeded', NULL),
('23', '15', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660250000', '1767225660500000', '1', '1', 'a8d200d6b2d5032acbda-1', 'old-1', 'succeeded', NULL),
('32', '16', '1767225900000000', '1767225900000000', '1767225900000000', '1767225900000000', '1767225900250000', '1', '1', '769189929868fd0b79e3-0', 'old-1', 'succeeded', NULL),
('35', '18', '1767225950000000', '1767225950000000', '1767225950000000', NULL, '1767226000000000', '1', '1', '881f217ef2cd27e2c9a9-0', 'old-2', 'lost', 'its node was lost'),
('4', '1', '1767225620000000', '1767225620000000', '1767225620000000', '1767225620000000', '1767225620250000', '1', '1', 'a454f54a304a61b8bf21-0', 'old-1', 'succeeded', NULL),
('6', '2', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620500000', '1', '1', '43e2a0c30c9de54b114c-0', 'old-1', 'succeeded', NULL),
('8', '3', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620500000', '1767225620750000', '1', '1', '43e2a0c30c9de54b114c-2', 'old-1', 'succeeded', NULL),
('9', '4', '1767225620750000', '1767225620750000', '1767225620750000', '1767225620750000', '1767225621000000', '1', '1', '59b90770008b4e283e0d-0', 'old-1', 'failed', 'ConnectionError: page 4');
INSERT INTO checkpoints (run_id, revision, value, written_at) VALUES
('9', '1', '{"page":3}', '1767225620750000');
INSERT INTO daily_counts (job_id, day, state, count) VALUES
('21', '20454', 'dead', '1'),
('21', '20454', 'succeeded', '3');
INSERT INTO dependencies (namespace, parent, child_id, every_run, counts, run_id, ended_at) VALUES
('default', 'extract', '16', 'false', 'success', NULL, NULL),
('default', 'extract', '17', 'false', 'either', '4', '1767225620250000'),
('default', 'other', '17', 'false', 'either', NULL, NULL);
INSERT INTO documents (kind, id, version, body, written_at) VALUES
('applied', 'qa/pipeline', '1', '{"source": "pipeline.yaml"}', '1767225600000000'),
('key', '1a1c15d99f37fec', '6', '{"name": "ci", "grant": {"role": "operator", "scopes": null, "may_code": false, "namespaces": ["default", "qa"], "owner": "ci", "only_own": false}, "made_at": 1767225605000000, "made_by": "local", "expires_at": null, "revoked_at": null, "proof": "8059a3122e5c02e40feb381c2f73fb10df3970d00e0ff767d315ffb53ee9a434"}', '1767225605000000'),
('key', '36d9824ca6f1bba', '10', '{"name": "gone", "grant": {"role": "viewer", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "made_by": "local", "expires_at": null, "revoked_at": 1767225605000000, "proof": ""}', '1767225605000000'),
('key', '824c73ce9fc7784', '8', '{"name": "short", "grant": {"role": "viewer", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "made_by": "local", "expires_at": 1767229205000000, "revoked_at": null, "proof": "653baad4c3aa0ab15bc7e25750329d42808bddfcaebe8a02faf6850365b3cad3"}', '1767225605000000'),
('key.used', '1a1c15d99f37fec', '7', '{"used_at": 1767225605000000}', '1767225605000000'),
('secret', 'default/DB_PASSWORD', '11', '{"key": "2aac7d97fccc", "sealed": "0eD5ibZaZnN65o+zyxpg1+GK913yX7Y5IVyKUqPFx9Sk+x8XyISB"}', '1767225605000000'),
('user', 'ann', '2', '{"grant": {"role": "admin", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "disabled": false, "epoch": "c11172780ac30402d3d9f55dfaa92e7f", "password": "$argon2id$v=19$m=65536,t=3,p=4$MDEyMzQ1Njc4OWFiY2RlZg$UiBIPUuhY3xdXfQ7N3p/au05phWWk9ACmj5PdtUGaas", "issuer": "", "subject": ""}', '1767225605000000'),
('user', 'eve', '4', '{"grant": {"role": "viewer", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "disabled": true, "epoch": "387c29f85fc12eff8fc8001da8583693", "password": "$argon2id$v=19$m=65536,t=3,p=4$MDEyMzQ1Njc4OWFiY2RlZg$YppNfryE9uJpduriroT8hFahWbP4/tHz+tPsBSfslf0", "issuer": "", "subject": ""}', '1767225605000000'),
('user', 'pat@example.org', '5', '{"grant": {"role": "editor", "scopes": null, "may_code": false, "namespaces": ["qa"], "owner": "", "only_own": false}, "made_at": 1767225605000000, "disabled": false, "epoch": "91250c3e674a1c9077872ebb57f5830e", "password": "", "issuer": "", "subject": ""}', '1767225605000000');
INSERT INTO entries (kind, number, key, body, written_at) VALUES
('audit', '1', '115de576d63ebc1b50506152327df060', E'{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "users.create", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\\u2026"}}}', '1767225605000000'),
('audit', '2', 'aa89d4c8bc7f7f6f72c2ced40ffc13f7', E'{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "jobs.put", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\\u2026"}}}', '1767225606000000'),
('audit', '3', 'ee2303889e78c8ba2a828bed7e0e3559', E'{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "jobs.pause", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\\u2026"}}}', '1767225607000000'),
('audit', '4', 'bd53efa11094fa7942ed0a8ac2540ffb', E'{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "keys.revoke", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\\u2026"}}}', '1767225608000000'),
('audit.seals', '1', '0:0000000000000000000000000000000000000000000000000000000000000000', '{"previous": "0000000000000000000000000000000000000000000000000000000000000000", "entries": [[1, "0d6b450c1502143cb463548aeeeacebe1a5e41c2aba2e1236f29695a9cb9f03d"], [2, "c540997407821e166ee9e55176307cfed6d8038fc204ddbf22b0adf0d1108f53"], [3, "2f4bf8812df86dda9a1d0f9d40518ca46c1267485e678018c2b55f2e7a67a752"]]}', '1767225609000000');
INSERT INTO exceptions (job_id, schedule_id, slot_at, reason, recorded, run_id) VALUES
('1', 'a416daf5a6', '1767254400000000', 'moved', 'false', '33'),
('1', 'a416daf5a6', '1767340800000000', 'cancelled', 'false', NULL),
('2', 'efe8f879eb', '4102401600000000', 'moved', 'false', '34'),
('2', 'efe8f879eb', '4115534400000000', 'cancelled', 'false', NULL),
('3', '1b94e348c1', '1767225620000000', 'moved', 'true', '3');
INSERT INTO gate_holders (key, run_id, until_end) VALUES
('limit:name:db:', '38', 'false'),
('overlap:28:', '36', 'true'),
('running:19:', '41', 'false');
INSERT INTO history (id, job_id, slot_at, due_at, created_at, armed_at, started_at, ended_at, attempts, failures, recoveries, priority, state, queue, trigger, target, reason, origin, args, error, result, settled) VALUES
('1', '3', '1767225620000000', '1767225620000000', '1767225600000000', NULL, NULL, '1767225602000000', '0', '0', '0', '1', 'skipped', 'default', 'schedule:1b94e348c1', '', 'moved', NULL, NULL, NULL, NULL, NULL),
('10', '22', '1767225621000000', '1767225621000000', '1767225621000000', '1767225621000000', '1767225621000000', '1767225621250000', '1', '0', '0', '1', 'succeeded', 'default', 'submit:940f01f4abb208bda804206fd6b67047', '', '', NULL, NULL, NULL, '"bye"', NULL),
('11', '26', '1767229221250000', '1767229221250000', '1767225621250000', NULL, NULL, '1767225621250000', '0', '0', '0', '1', 'cancelled', 'default', 'submit:5c8f8574e1df586879391b3ae362d424', '', 'not needed', NULL, NULL, NULL, NULL, NULL),
('12', '15', '1767225622250000', '1767225622250000', '1767225621250000', NULL, NULL, '1767225640000000', '0', '0', '0', '1', 'skipped', 'default', 'submit:ad819a768e0a7c4ce812a2e44687d43d', '', 'expired', NULL, NULL, NULL, NULL, NULL),
('13', '13', '1767225650000000', '1767225650000000', '1767225650000000', '1767225650000000', '1767225650000000', '1767225650250000', '1', '1', '0', '1', 'dead', 'default', 'submit:7760ce8c8828269db608a86d59ec84a7', '', 'no tries left', NULL, '{"n":0}', 'ValueError: row 17 is bad', NULL, NULL),
('14', '13', '1767225650250000', '1767225650250000', '1767225650250000', '1767225650250000', '1767225650250000', '1767225650500000', '1', '1', '0', '1', 'dead', 'default', 'submit:ed4ccc9a0843e82ae1cab8443f2d7a00', '', 'no tries left', NULL, '{"n":1}', 'ValueError: row 99 is bad', NULL, NULL),
('15', '13', '1767225650500000', '1767225650500000', '1767225650500000', '1767225650500000', '1767225650500000', '1767225650750000', '1', '1', '0', '1', 'dead', 'default', 'submit:ea25ac943a38b1beacc4a2d67eee19fa', '', 'no tries left', NULL, '{"n":2}', 'OSError: no disk', NULL, 'replayed:17'),
('16', '13', '1767225650750000', '1767225650750000', '1767225650750000', '1767225650750000', '1767225650750000', '1767225651000000', '1', '1', '0', '1', 'dead', 'default', 'submit:d83a3708e947fbe58879eeeba60cccd9', '', 'no tries left', NULL, '{"n":3}', 'KeyError: ''x''', NULL, 'discarded:known'),
('2', '5', '1767225600000001', '1767225600000001', '1767225600000000', '1767225910000000', '1767225910000000', '1767225910250000', '1', '0', '0', '1', 'succeeded', 'default', 'schedule:a0493c3f62', '', '', NULL, NULL, NULL, NULL, NULL),
('22', '20', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660250000', '1', '0', '0', '1', 'succeeded', 'bulk', 'submit:0063a1609e9ae829501223aff6b1d36c', '', '', NULL, '{"tenant":"gold"}', NULL, NULL, NULL),
('23', '20', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660000000', '1767225660250000', '1767225660500000', '1', '0', '0', '1', 'succeeded', 'bulk', 'submit:2b271f3676cfe3cddfdcaa4db9d4011d', '', '', NULL, '{"tenant":"free"}', NULL, NULL, NULL),
('32', '4', '1767225900000000', '1767225900000000', '1767225890000000', '1767225900000000', '1767225900000000', '1767225900250000', '1', '0', '0', '1', 'succeeded', 'default', 'schedule:1547a12ebe', '', '', NULL, NULL, NULL, NULL, NULL),
('35', '18', '1767225950000000', '1767225950000000', '1767225950000000', '1767225950000000', NULL, '1767226000000000', '1', '0', '0', '1', 'lost', 'default', 'submit:5957ff8b0778ba8ec9ebed6c891a4cb2', '', 'node gone', NULL, '{"n":1}', 'its node was lost', NULL, NULL),
('4', '14', '1767225620000000', '1767225620000000', '1767225620000000', '1767225620000000', '1767225620000000', '1767225620250000', '1', '0', '0', '1', 'succeeded', 'default', 'submit:186cacca6204db13798024811c2cb65d', '', '', NULL, NULL, NULL, '{"rows":3}', NULL),
('6', '9', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620500000', '1', '0', '0', '1', 'succeeded', 'default', 'submit:ee496e3744aaa6a5a684842ce70a76d5', '', '', NULL, '{"tenant":"a"}', NULL, NULL, NULL),
('8', '9', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620250000', '1767225620500000', '1767225620750000', '1', '0', '0', '1', 'succeeded', 'default', 'submit:bd3bdbd61778abc8e9c49b88e6037730', '', '', NULL, '{"tenant":"b"}', NULL, NULL, NULL);
INSERT INTO job_revisions (job_id, revision, definition, created_at) VALUES
('1', '1', '{"args":{"region":"eu"},"name":"report","owner":"ann","retry":{"attempts":3},"schedules":[{"expression":"0 9 * * *","fold":"first","gap":"run_after","id":"","kind":"cron","run_once":false,"tz":"Europe/Berlin"}],"task":{"handler":"report","kind":"call"}}', '1767225600000000'),
('1', '2', '{"args":{"region":"world"},"name":"report","owner":"ann","retry":{"attempts":3},"schedules":[{"expression":"0 9 * * *","fold":"first","gap":"run_after","id":"","kind":"cron","run_once":false,"tz":"Europe/Berlin"}],"task":{"handler":"report","kind":"call"}}', '1767225602000000'),
('10', '1', '{"concurrency":{"key":"","most":1,"name":"db"},"name":"load_db","retry":{"attempts":2},"task":{"handler":"load_db","kind":"call"}}', '1767225600000000'),
('11', '1', '{"concurrency":{"key":"","most":1,"name":"db"},"name":"clean_db","task":{"handler":"clean_db","kind":"call"}}', '1767225600000000'),
('12', '1', '{"name":"crawl","retry":{"attempts":3,"backoff":"fixed","delay_us":10000000,"jitter":false},"task":{"handler":"crawl","kind":"call"},"timeout_us":300000000}', '1767225600000000'),
('13', '1', '{"name":"flaky","task":{"handler":"flaky","kind":"call"}}', '1767225600000000'),
('14', '1', '{"name":"extract","task":{"handler":"extract","kind":"call"}}', '1767225600000000'),
('15', '1', '{"name":"other","task":{"handler":"other","kind":"call"}}', '1767225600000000'),
('16', '1', '{"after":{"any":false,"on":"success","parents":["extract"]},"name":"load","task":{"handler":"load","kind":"call"}}', '1767225600000000'),
('17', '1', '{"after":{"any":false,"on":"either","parents":["extract","other"]},"name":"merge","task":{"handler":"merge","kind":"call"}}', '1767225600000000'),
('18', '1', '{"guarantee":"at_most_once","name":"careful","task":{"handler":"careful","kind":"call"}}', '1767225600000000'),
('19', '1', '{"name":"errand","overlap":{"max_running":2,"mode":"allow"},"task":{"handler":"errand","kind":"call"}}', '1767225600000000'),
('2', '1', '{"name":"centenary","schedules":[{"id":"","instant":"2099-12-31T12:00:00+00:00","kind":"at","more":["2100-06-01T12:00:00+00:00","2100-12-31T12:00:00+00:00"]}],"task":{"handler":"centenary","kind":"call"}}', '1767225600000000'),
('20', '1', '{"name":"bulk","queue":"bulk","share":"tenant","task":{"handler":"bulk","kind":"call"}}', '1767225600000000'),
('21', '1', '{"name":"tally","task":{"handler":"tally","kind":"call"}}', '1767225600000000'),
('22', '1', '{"name":"legacy","task":{"handler":"legacy","kind":"call"}}', '1767225600000000'),
('23', '1', '{"labels":["gpu"],"name":"everywhere","on":"all","schedules":[{"id":"","instant":"2099-01-01T00:00:00+00:00","kind":"at"}],"task":{"handler":"everywhere","kind":"call"}}', '1767225600000000'),
('24', '1', '{"name":"backup","owner":"bob","queue":"programs","task":{"argv":["echo","saved"],"env":{"LEVEL":"full"},"kind":"command"}}', '1767225600000000'),
('25', '1', '{"name":"hook","queue":"web","task":{"body":{"done":true},"kind":"http","method":"POST","url":"https://example.org/hook"}}', '1767225600000000'),
('26', '1', '{"name":"nap","task":{"duration_us":0,"kind":"sleep"}}', '1767225600000000'),
('27', '1', E'{"name":"pipeline","namespace":"qa","owner":"bob","params":[{"default":"1","name":"version"}],"queue":"programs","task":{"kind":"steps","steps":[{"env":{"VERSION":"${{ params.version }}"},"name":"build","script":"echo \\"building $VERSION\\""},{"name":"publish","script":"echo published"}]}}', '1767225600000000'),
('28', '1', '{"name":"sync","overlap":{"max_waiting":1,"mode":"wait"},"schedules":[{"anchor":null,"end":"2026-01-01T00:25:00+00:00","id":"","interval_us":600000000,"kind":"every","run_once":false}],"task":{"handler":"sync","kind":"call"}}', '1767226195000000'),
('3', '1', '{"name":"parade","schedules":[{"id":"","instant":"2026-01-01T00:00:20+00:00","kind":"at","more":["2099-05-01T12:00:00+00:00"]}],"task":{"handler":"parade","kind":"call"}}', '1767225600000000'),
('4', '1', '{"name":"poll","overlap":{"mode":"skip"},"schedules":[{"anchor":null,"end":"2026-01-01T00:05:00+00:00","id":"","interval_us":60000000,"kind":"every","run_once":false}],"task":{"handler":"poll","kind":"call"}}', '1767225600000000'),
('5', '1', '{"catch_up":{"limit":3,"mode":"all","window_us":7200000000},"name":"drip","schedules":[{"delay_us":3600000000,"id":"","kind":"gap","start":null}],"task":{"handler":"drip","kind":"call"}}', '1767225600000000'),
('6', '1', '{"name":"newest","overlap":{"mode":"replace"},"schedules":[{"anchor":null,"id":"","interval_us":7200000000,"kind":"every","run_once":false,"start":"2125-12-08T00:00:00+00:00"}],"task":{"handler":"newest","kind":"call"}}', '1767225600000000'),
('7', '1', '{"name":"frozen","priority":"high","schedules":[{"anchor":null,"id":"","interval_us":3600000000,"kind":"every","run_once":false}],"task":{"handler":"frozen","kind":"call"}}', '1767225600000000'),
('8', '1', '{"name":"halted","schedules":[{"anchor":null,"id":"","interval_us":3600000000,"kind":"every","run_once":false}],"task":{"handler":"halted","kind":"call"}}', '1767225600000000'),
('9', '1', '{"name":"mail","rate":{"burst":1,"key":"tenant","most":1,"name":"","per_us":60000000},"task":{"handler":"mail","kind":"call"}}', '1767225600000000');
INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated, definition_hash, created_at, updated_at, pause_reason, paused_until) VALUES
('1', 'default', 'report', 'ann', 'active', '2', 'call:report', 'default', 'default', '1', '', 'true', '425687023940d60e0329b6ca78477106aaec120fb3d24529488b9ccacecb66e0', '1767225600000000', '1767225602000000', '', NULL),
('10', 'default', 'load_db', '', 'active', '1', 'call:load_db', 'default', 'default', '1', '', 'true', 'cec2669c65a3b017a3f6fea3f463190f8f9f0e32c4dc954efbf970391cff795f', '1767225600000000', '1767225600000000', '', NULL),
('11', 'default', 'clean_db', '', 'active', '1', 'call:clean_db', 'default', 'default', '1', '', 'true', '2a6be948e5d943738a60feed88901ca485391583ce194a52547e6f638fa6065a', '1767225600000000', '1767225600000000', '', NULL),
('12', 'default', 'crawl', '', 'active', '1', 'call:crawl', 'default', 'default', '1', '', 'false', '62d7c508015b752053ffcf0f7aeeb69866f7e58f047528d8190b180140f05573', '1767225600000000', '1767225600000000', '', NULL),
('13', 'default', 'flaky', '', 'active', '1', 'call:flaky', 'default', 'default', '1', '', 'false', '7dbae7ff3bd2dec0166cead6846a8487739f7c64ea105de11d05e988fef0eed9', '1767225600000000', '1767225600000000', '', NULL),
('14', 'default', 'extract', '', 'active', '1', 'call:extract', 'default', 'default', '1', '', 'false', 'd5a75b74d58177a589f9a8489f77a3ec17b1224453aba49c175a5f8992ab8653', '1767225600000000', '1767225600000000', '', NULL),
('15', 'default', 'other', '', 'active', '1', 'call:other', 'default', 'default', '1', '', 'false', 'f785a125d84bc6ad1fef92e54e6e5685d79922e70b447b41cf7cc35986a8b148', '1767225600000000', '1767225600000000', '', NULL),
('16', 'default', 'load', '', 'active', '1', 'call:load', 'default', 'default', '1', '', 'false', '62b08b8fe9a5ec6076755d503a5e8e2303a8bb7aa936d04c65d06a093ed91b6c', '1767225600000000', '1767225600000000', '', NULL),
('17', 'default', 'merge', '', 'active', '1', 'call:merge', 'default', 'default', '1', '', 'false', 'cf03ad16b277dd882dd4c981fae7bbf313d392bc7da79ad52113dc0debeb2d4b', '1767225600000000', '1767225600000000', '', NULL),
('18', 'default', 'careful', '', 'active', '1', 'call:careful', 'default', 'default', '1', '', 'false', 'b6adeca78906ce3a494c121e0c99e0613002bb13538bf9794ba9d2f3081b7c24', '1767225600000000', '1767225600000000', '', NULL),
('19', 'default', 'errand', '', 'active', '1', 'call:errand', 'default', 'default', '1', '', 'true', '55af6cb9dd6ee3a1e3b51e625b7142a41792e04b149fd51b572d6a9445e1fee9', '1767225600000000', '1767225600000000', '', NULL),
('2', 'default', 'centenary', '', 'active', '1', 'call:centenary', 'default', 'default', '1', '', 'true', 'c45253b26f110db93116a6aed3ec9f107e056d5af9b3b31f73c5ee23e86042c2', '1767225600000000', '1767225600000000', '', NULL),
('20', 'default', 'bulk', '', 'active', '1', 'call:bulk', 'bulk', 'bulk', '1', 'tenant', 'false', '9839848fd076c411c5316a5db302d780b82b120db00c29cea6dac2dce9112c44', '1767225600000000', '1767225600000000', '', NULL),
('21', 'default', 'tally', '', 'active', '1', 'call:tally', 'default', 'default', '1', '', 'false', 'b3781aa5e08ca79534ebb7f470dcc63b43b12ef2999f8298a1e0507ba0b204b6', '1767225600000000', '1767225600000000', '', NULL),
('22', 'default', 'legacy', '', 'deleted', '1', 'call:legacy', 'default', 'default', '1', '', 'false', 'ecdbab02f2d9727869a28897ab047f5be80d96583d9e5ee4522304b814e2c3ee', '1767225600000000', '1767225621250000', '', NULL),
('23', 'default', 'everywhere', '', 'active', '1', 'call:everywhere', 'default', 'default	gpu', '1', '', 'true', '0d27add6db52be989940d69842769f6af827da83f6bbcef2cd43bfcc39de71b0', '1767225600000000', '1767225600000000', '', NULL),
('24', 'default', 'backup', 'bob', 'active', '1', 'command', 'programs', 'programs', '1', '', 'false', '0bc7ecdae471f38ddf6b1bcf838e599434c8c20a05aec681fb53c27aa8ff315c', '1767225600000000', '1767225600000000', '', NULL),
('25', 'default', 'hook', '', 'active', '1', 'http', 'web', 'web', '1', '', 'false', 'ba9185d7ec29cff1ef72b7de6a5562aba9f09515a4d1eda59e51fe2c651a7f9c', '1767225600000000', '1767225600000000', '', NULL),
('26', 'default', 'nap', '', 'active', '1', 'sleep', 'default', 'default', '1', '', 'false', '0c16fee7833ed0d1922d06d71e6f56c38cbb95ac58c21945929b872c2a18badf', '1767225600000000', '1767225600000000', '', NULL),
('27', 'qa', 'pipeline', 'bob', 'active', '1', 'steps', 'programs', 'programs', '1', '', 'false', 'cc5cee43dd58dae13edac841a8fea3deb13802aa1ab2e423b0eedfcb93dd7513', '1767225600000000', '1767225600000000', '', NULL),
('28', 'default', 'sync', '', 'active', '1', 'call:sync', 'default', 'default', '1', '', 'true', '3bf1652abf6d870d067f89d737bd4c5741d276a492e625154966b91ebf7e9311', '1767226195000000', '1767226195000000', '', NULL),
('3', 'default', 'parade', '', 'active', '1', 'call:parade', 'default', 'default', '1', '', 'true', '80ce8c3fa841192d4bacea8ed523e11be804e493d4208c920e7549980d7d8c5b', '1767225600000000', '1767225600000000', '', NULL),
('4', 'default', 'poll', '', 'active', '1', 'call:poll', 'default', 'default', '1', '', 'true', 'd1f41372cb999521a7422c49e4bf0cac1bf89dccc0978d344551be7457bbb299', '1767225600000000', '1767225890000000', '', NULL),
('5', 'default', 'drip', '', 'active', '1', 'call:drip', 'default', 'default', '1', '', 'true', 'f68331f7378e38aa71b85b22db054952a715e830890353900bec7bb26c40d360', '1767225600000000', '1767225600000000', '', NULL),
('6', 'default', 'newest', '', 'active', '1', 'call:newest', 'default', 'default', '1', '', 'true', '5f9ee1d86aeb93ca15c42f9a2ea574014138df6850cb93885dec271bde4f27cf', '1767225600000000', '1767225600000000', '', NULL),
('7', 'default', 'frozen', '', 'paused', '1', 'call:frozen', 'default', 'default', '2', '', 'true', 'f085144d9fa36670393b558afc2fdb14e0042c1d31ced42b5a6b368600bf448a', '1767225600000000', '1767225690000000', 'stocktaking', NULL),
('8', 'default', 'halted', '', 'paused', '1', 'call:halted', 'default', 'default', '1', '', 'true', 'c88fad415788ec3c4d99e655e48f7552498e117a093b83acdc42040eea04e0a7', '1767225600000000', '1767225690000000', 'until later', '4070908800000000'),
('9', 'default', 'mail', '', 'active', '1', 'call:mail', 'default', 'default', '1', '', 'true', '9569d0593bb724f7a5e14db200267e964b265950fde9fcd4606931f7f30623f4', '1767225600000000', '1767225600000000', '', NULL);
INSERT INTO layouts (version, shards, since) VALUES
('1', '1', '0'),
('2', '2', '1767225600000000');
INSERT INTO migrations (number, name) VALUES
('1', 'first_schema');
INSERT INTO nodes (number, incarnation, id, host, pid, roles, offers, draining, registered_at, ttl, lease_until, left_at, ended, reaped, void_below, empty_at, tzdata) OVERRIDING SYSTEM VALUE VALUES
('1', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', 'old-1', 'host.example', '4711', '{planner,worker}', '{"queues": ["default", "bulk"], "labels": [], "tasks": [], "seats": 64}', 'false', '1767225600000000', '15000000', '1767227409000000', NULL, 'false', '0', '0', NULL, '2025b'),
('2', 'old-2-9f583df078d0666f4d86cfe7c9c0ffc7', 'old-2', 'host.example', '4711', '{planner,worker}', '{"queues": ["default", "bulk"], "labels": [], "tasks": [], "seats": 64}', 'false', '1767225600000000', '360000000', '1767225960000000', NULL, 'true', '1', '0', NULL, '2025b'),
('3', 'old-2-d7bb8348cf68ee01b0d0946f4bc40f1b', 'old-2', 'host.example', '4711', '{planner,worker}', '{"queues": ["default", "bulk"], "labels": [], "tasks": [], "seats": 64}', 'false', '1767226000000000', '15000000', '1767226000000000', '1767226000000000', 'true', '0', '0', NULL, '2025b');
INSERT INTO notes (run_id, attempt, number, progress, log) VALUES
('9', '1', '1', '[3, 10]', 'page 3
');
INSERT INTO queues (name, paused_at, reason, weights, virtual_time) VALUES
('bulk', NULL, '', '{"gold": 3, "free": 1}', '0'),
('web', '1767225660500000', 'maintenance', NULL, '0');
INSERT INTO rates (key, tat, part, parts) VALUES
('rate:job:9:"a"', '1767225740250000', '0', '1'),
('rate:job:9:"b"', '1767225680250000', '0', '1');
INSERT INTO runs (id, job_id, slot_at, due_at, ready_at, expires_at, rank, fence, reserved_at, armed_at, created_at, revision, attempt, failures, recoveries, priority, delayed, state, route, queue, share, trigger, target, reason, lease_id, incarnation, blocked_on, blocked_capacity, blocked_until_end, granted_at, granted_by, cancel_wanted, origin, args) VALUES
('17', '13', '1767225650500000', '1767225651000000', '1767225651000000', NULL, NULL, NULL, NULL, NULL, '1767225651000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'rerun:15', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"n":2}'),
('24', '20', '1767225660000000', '1767225660000000', '1767225660000000', NULL, '1398101', NULL, NULL, NULL, '1767225660000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', '~bulk', 'bulk', 'gold', 'submit:1555c38cad1aeb3831604a4ecf5daeb0', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"tenant":"gold"}'),
('25', '20', '1767225660000000', '1767225660000000', '1767225660000000', NULL, '4194304', NULL, NULL, NULL, '1767225660000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', '~bulk', 'bulk', 'free', 'submit:f48f60b7cd8f8a60a928d485d5bbe6df', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"tenant":"free"}'),
('26', '20', '1767225660000000', '1767225660000000', '1767225660000000', NULL, '2796202', NULL, NULL, NULL, '1767225660000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', '~bulk', 'bulk', 'gold', 'submit:5a2a1a3dd9f225bbf19ba27a0065fd4f', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"tenant":"gold"}'),
('27', '20', '1767225660000000', '1767225660000000', '1767225660000000', NULL, '8388608', NULL, NULL, NULL, '1767225660000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', '~bulk', 'bulk', 'free', 'submit:f480aceea8a581bc350de0fd4a4bcd97', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"tenant":"free"}'),
('28', '25', '1767225660500000', '1767225660500000', '1767225660500000', NULL, NULL, NULL, NULL, NULL, '1767225660500000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'web', 'web', '', 'submit:0e896fafb44c33c82bf1a13ec1ad4521', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('29', '24', '1767225660500000', '1767225660500000', '1767225660500000', NULL, NULL, NULL, NULL, NULL, '1767225660500000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'programs', 'programs', '', 'submit:07fa5696b0b92434e4d8a1939feffb7e', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('3', '3', '4081406400000000', '4081406400000000', '4081406400000000', NULL, NULL, NULL, NULL, NULL, '1767225602000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'manual:f5b01f04ca4f9a19d64fad9fca81aad0', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('30', '27', '1767225660500000', '1767225660500000', '1767225660500000', NULL, NULL, NULL, NULL, NULL, '1767225660500000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'programs', 'programs', '', 'submit:0aaed6435be62976f8f0784177a62c9a', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"version":"7"}'),
('31', '7', '1767225690000000', '1767225690000000', '4611686018427387904', NULL, NULL, NULL, NULL, NULL, '1767225690000000', NULL, '0', '0', '0', '2', 'false', 'scheduled', 'default', 'default', '', 'submit:ec7149270bf6b9228ed6edd92856eb2f', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('33', '1', '1767261600000000', '1767261600000000', '1767261600000000', NULL, NULL, NULL, NULL, NULL, '1767225920000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'manual:fe991014ad9f3ee06718543bab7c4323', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('34', '2', '4102405200000000', '4102405200000000', '4102405200000000', NULL, NULL, NULL, NULL, NULL, '1767225920000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'manual:eab3e7a5258d81d81a8cbc1f6b63125c', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('36', '28', '1767226200000000', '1767226200000000', '1767226200500000', NULL, NULL, '19', '1767226200000000', '1767226200000000', '1767226195000000', '1', '1', '0', '0', '1', 'false', 'running', 'default', 'default', '', 'schedule:a557bc224e', '', '', '092ee4c30ad031af3e7f-0', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('37', '28', '1767226800000000', '1767226800000000', '4611686018427387904', NULL, NULL, NULL, NULL, NULL, '1767226790000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'schedule:a557bc224e', '', 'waits for run 36', NULL, NULL, 'overlap:28:', '1', 'true', NULL, NULL, NULL, NULL, NULL),
('38', '10', '1767227390000000', '1767227390000000', '1767227390500000', NULL, NULL, '20', '1767227390000000', '1767227390000000', '1767227390000000', '1', '1', '0', '0', '1', 'false', 'running', 'default', 'default', '', 'submit:dc6cc98ade486d30a5ed46728ba85c0d', '', '', 'cc470e0b95fab2e89033-0', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"table":"orders"}'),
('39', '11', '1767227390000000', '1767227390000000', '4611686018427387904', NULL, NULL, NULL, NULL, NULL, '1767227390000000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'submit:673cfffea9ddf9d347cd8859b60cd9de', '', 'waits for run 38', NULL, NULL, 'limit:name:db:', '1', 'false', NULL, NULL, NULL, NULL, NULL),
('40', '18', '1767227390000000', '1767227390000000', '1767227390000000', NULL, NULL, '21', '1767227390000000', '1767227390000000', '1767227390000000', '1', '1', '0', '0', '1', 'false', 'running', 'default', 'default', '', 'submit:762e79a2a15a401a176aee4d591ef121', '', '', '186c32b80457f8449723-0', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"n":2}'),
('41', '19', '1767227390000000', '1767227390000000', '1767227390500000', NULL, NULL, '22', '1767227390000000', '1767227390000000', '1767227390000000', '1', '1', '0', '0', '1', 'false', 'running', 'default', 'default', '', 'submit:25fc4df267032df3b6d519de2f4411d6', '', '', '5d5aaedc8b572a7c90b5-0', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', NULL, NULL, NULL, NULL, NULL, 'enough', NULL, '{"n":1}'),
('42', '19', '1767227395000000', '1767227395000000', '1767227395500000', NULL, NULL, NULL, '1767227390000000', NULL, '1767227390000000', '1', '0', '0', '0', '1', 'false', 'reserved', 'default', 'default', '', 'submit:41e7f1855a27006b7564ce23170e00a0', '', '', '273dd2ce0715fc83f5b0-0', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"n":2}'),
('5', '16', '1767225620250000', '1767225620250000', '1767225620250000', NULL, NULL, NULL, NULL, NULL, '1767225620250000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'after:4', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('7', '9', '1767225620250000', '1767225680250000', '1767225680250000', NULL, NULL, NULL, NULL, NULL, '1767225620250000', NULL, '0', '0', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'submit:e11484bd9857c43bfc68bf1ddfd9a019', '', 'waits at rate:job:9:"a", starts at 2026-01-01T00:01:20.250000+00:00', '43e2a0c30c9de54b114c-1', NULL, NULL, NULL, NULL, '1767225680250000', 'rate:job:9:"a"', NULL, NULL, '{"tenant":"a"}'),
('9', '12', '1767225620750000', '1767225630750000', '1767225630750000', NULL, NULL, NULL, NULL, NULL, '1767225620750000', NULL, '1', '1', '0', '1', 'false', 'scheduled', 'default', 'default', '', 'submit:30d3afb632c2278df596f0e02aa0aa50', '', 'retry', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"site":"one"}');
INSERT INTO schedules (job_id, schedule_id, bucket, origin, watermark, next_at, last_end, delay, armed_to, zoned) VALUES
('1', 'a416daf5a6', '886', '1767225600000000', '1767225632000000', '1767254400000000', NULL, NULL, NULL, 'true'),
('2', 'efe8f879eb', '876', '1767225600000000', '1767225630000000', '4102401600000000', NULL, NULL, NULL, 'false'),
('23', '7feafa3d14', '736', '1767225600000000', '1767225630000000', '4070908800000000', NULL, NULL, NULL, 'false'),
('28', 'a557bc224e', '968', '1767226195000000', '1767226820000000', NULL, NULL, NULL, NULL, 'false'),
('3', '1b94e348c1', '513', '1767225600000000', '1767225630000000', '4081320000000000', NULL, NULL, NULL, 'false'),
('4', '1547a12ebe', '182', '1767225600000000', '1767225920000000', NULL, NULL, NULL, NULL, 'false'),
('5', 'a0493c3f62', '416', '1767225600000000', '1767225600000001', '1767229510250000', '1767225910250000', '3600000000', NULL, 'false'),
('6', 'a6942dbe22', '76', '1767225600000000', '1767225630000000', '4920825600000000', NULL, NULL, NULL, 'false'),
('7', '408dbd4fcc', '898', '1767225600000000', '1767225630000000', '1767229200000000', NULL, NULL, NULL, 'false'),
('8', '408dbd4fcc', '762', '1767225600000000', '1767225630000000', '1767229200000000', NULL, NULL, NULL, 'false');
INSERT INTO skips (id, job_id, schedule_id, first, last, count, reason, recorded_at) OVERRIDING SYSTEM VALUE VALUES
('1', '4', '1547a12ebe', '1767225660000000', '1767225840000000', '4', 'paused', '1767225890000000');
INSERT INTO submit_keys (job_id, key, run_id, args, created_at) VALUES
('12', 'site-1', '9', '{"site":"one"}', '1767225620750000'),
('14', '2026-01-01', '4', NULL, '1767225620000000');
INSERT INTO term_history (shard, number, incarnation, began_at) VALUES
('0', '1', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', '1767226790000000'),
('0', '2', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', '1767227394000000'),
('1', '1', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', '1767226790000000'),
('1', '2', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', '1767227394000000');
INSERT INTO terms (shard, number, incarnation, until, ttl, layout, tzdata, zones) VALUES
('0', '2', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', '1767227404000000', '10000000', '2', '2025b', ''),
('1', '2', 'old-1-92f3d2bca7329e3a4a2090f4c4422278', '1767227404000000', '10000000', '2', '2025b', '');
INSERT INTO turns (queue, share, priority, ends) VALUES
('bulk', 'free', '1', '12582912'),
('bulk', 'gold', '1', '4194303');
SELECT setval('onthedot.document_versions', 11);
SELECT setval('onthedot.fences', 22);
SELECT setval('onthedot.job_ids', 28);
SELECT setval('onthedot.nodes_number_seq', 3);
SELECT setval('onthedot.run_ids', 42);
SELECT setval('onthedot.skips_id_seq', 1);
