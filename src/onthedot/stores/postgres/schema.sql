-- Made by the migrations. Written by `tests.stores.postgres.snapshot`; do not edit.

CREATE SEQUENCE document_versions;
CREATE SEQUENCE fences;
CREATE SEQUENCE job_ids;
CREATE SEQUENCE nodes_number_seq;
CREATE SEQUENCE run_ids;
CREATE SEQUENCE skips_id_seq;

CREATE TABLE attempts (
    run_id bigint NOT NULL,
    fence bigint NOT NULL,
    due_at bigint NOT NULL,
    reserved_at bigint NOT NULL,
    armed_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint NOT NULL,
    attempt integer NOT NULL,
    revision integer NOT NULL,
    lease_id text COLLATE "C" NOT NULL,
    node text NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    error text
) PARTITION BY RANGE (ended_at);
CREATE INDEX attempts_node ON ONLY attempts USING btree (node, ended_at, run_id, attempt);
CREATE UNIQUE INDEX attempts_pkey ON ONLY attempts USING btree (run_id, attempt, ended_at);

CREATE TABLE checkpoints (
    run_id bigint NOT NULL,
    revision bigint NOT NULL,
    value text NOT NULL,
    written_at bigint NOT NULL
);
CREATE UNIQUE INDEX checkpoints_pkey ON checkpoints USING btree (run_id);

CREATE TABLE daily_counts (
    job_id bigint NOT NULL,
    day integer NOT NULL,
    state text COLLATE "C" NOT NULL,
    count bigint NOT NULL
);
CREATE UNIQUE INDEX daily_counts_pkey ON daily_counts USING btree (job_id, day, state);

CREATE TABLE dependencies (
    namespace text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    child_id bigint NOT NULL,
    every_run boolean NOT NULL,
    counts text NOT NULL,
    run_id bigint,
    ended_at bigint
);
CREATE INDEX dependencies_child ON dependencies USING btree (child_id, parent);
CREATE UNIQUE INDEX dependencies_pkey ON dependencies USING btree (namespace, parent, child_id);

CREATE TABLE documents (
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    written_at bigint NOT NULL
);
CREATE UNIQUE INDEX documents_pkey ON documents USING btree (kind, id);

CREATE TABLE entries (
    kind text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    key text COLLATE "C",
    body text NOT NULL,
    written_at bigint NOT NULL
);
CREATE UNIQUE INDEX entries_key ON entries USING btree (kind, key) WHERE (key IS NOT NULL);
CREATE UNIQUE INDEX entries_pkey ON entries USING btree (kind, number);

CREATE TABLE exceptions (
    job_id bigint NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    slot_at bigint NOT NULL,
    reason text NOT NULL,
    recorded boolean NOT NULL,
    run_id bigint
);
CREATE UNIQUE INDEX exceptions_pkey ON exceptions USING btree (job_id, schedule_id, slot_at);

CREATE TABLE gate_holders (
    key text COLLATE "C" NOT NULL,
    run_id bigint NOT NULL,
    until_end boolean NOT NULL
);
CREATE UNIQUE INDEX gate_holders_pkey ON gate_holders USING btree (key, run_id);
CREATE INDEX gate_holders_run ON gate_holders USING btree (((+ run_id)));

CREATE TABLE history (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    slot_at bigint NOT NULL,
    due_at bigint NOT NULL,
    created_at bigint NOT NULL,
    armed_at bigint,
    started_at bigint,
    ended_at bigint NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    recoveries integer NOT NULL,
    priority smallint NOT NULL,
    state text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    trigger text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    origin bigint,
    args text,
    error text,
    result text,
    settled text
) PARTITION BY RANGE (ended_at);
CREATE INDEX history_dead ON ONLY history USING btree (ended_at, id) WHERE ((state = 'dead'::text) AND (settled IS NULL));
CREATE INDEX history_ended ON ONLY history USING btree (ended_at, id);
CREATE INDEX history_job_ended ON ONLY history USING btree (job_id, ended_at, id);
CREATE UNIQUE INDEX history_pkey ON ONLY history USING btree (id, ended_at);
CREATE INDEX history_submitted ON ONLY history USING btree (slot_at, job_id, trigger) WHERE (trigger !~~ 'schedule:%'::text);
CREATE INDEX history_unsuccessful ON ONLY history USING btree (ended_at, id) WHERE (state <> 'succeeded'::text);

CREATE TABLE job_revisions (
    job_id bigint NOT NULL,
    revision integer NOT NULL,
    definition text NOT NULL,
    created_at bigint NOT NULL
);
CREATE UNIQUE INDEX job_revisions_pkey ON job_revisions USING btree (job_id, revision);

CREATE TABLE jobs (
    id bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text NOT NULL,
    state text NOT NULL,
    revision integer NOT NULL,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    route text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    share text NOT NULL,
    gated boolean NOT NULL,
    definition_hash text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    pause_reason text NOT NULL DEFAULT ''::text,
    paused_until bigint
) WITH {fillfactor=80};
CREATE UNIQUE INDEX jobs_living ON jobs USING btree (namespace, name) WHERE (state <> 'deleted'::text);
CREATE INDEX jobs_name ON jobs USING btree (namespace, name);
CREATE INDEX jobs_named ON jobs USING btree (name);
CREATE INDEX jobs_owner ON jobs USING btree (owner, namespace, name);
CREATE INDEX jobs_paused ON jobs USING btree (paused_until) WHERE (state = 'paused'::text);
CREATE UNIQUE INDEX jobs_pkey ON jobs USING btree (id);

CREATE TABLE layouts (
    version integer NOT NULL,
    shards integer NOT NULL,
    since bigint NOT NULL
);
CREATE UNIQUE INDEX layouts_pkey ON layouts USING btree (version);

CREATE TABLE migrations (
    number integer NOT NULL,
    name text NOT NULL
);
CREATE UNIQUE INDEX migrations_pkey ON migrations USING btree (number);

CREATE TABLE nodes (
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    incarnation text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    roles text[] NOT NULL,
    offers text NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    registered_at bigint NOT NULL,
    ttl bigint NOT NULL,
    lease_until bigint NOT NULL,
    left_at bigint,
    ended boolean NOT NULL DEFAULT false,
    reaped bigint NOT NULL DEFAULT 0,
    void_below bigint NOT NULL DEFAULT 0,
    empty_at bigint,
    tzdata text COLLATE "C" NOT NULL DEFAULT ''::text
) WITH {fillfactor=50};
CREATE INDEX nodes_id ON nodes USING btree (id);
CREATE UNIQUE INDEX nodes_incarnation_key ON nodes USING btree (incarnation);
CREATE UNIQUE INDEX nodes_pkey ON nodes USING btree (number);

CREATE TABLE notes (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    number bigint NOT NULL,
    progress text,
    log text
);
CREATE UNIQUE INDEX notes_pkey ON notes USING btree (run_id, attempt);

CREATE TABLE queues (
    name text COLLATE "C" NOT NULL,
    paused_at bigint,
    reason text NOT NULL DEFAULT ''::text,
    weights text,
    virtual_time bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX queues_pkey ON queues USING btree (name);

CREATE TABLE rates (
    key text COLLATE "C" NOT NULL,
    tat bigint NOT NULL,
    part bigint NOT NULL,
    parts bigint NOT NULL
);
CREATE UNIQUE INDEX rates_pkey ON rates USING btree (key);
CREATE INDEX rates_tat ON rates USING btree (tat);

CREATE TABLE runs (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    slot_at bigint NOT NULL,
    due_at bigint NOT NULL,
    ready_at bigint NOT NULL,
    expires_at bigint,
    rank bigint,
    fence bigint,
    reserved_at bigint,
    armed_at bigint,
    created_at bigint NOT NULL,
    revision integer,
    attempt integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    recoveries integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    delayed boolean NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'scheduled'::text,
    route text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    share text NOT NULL,
    trigger text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    lease_id text COLLATE "C",
    incarnation text COLLATE "C",
    blocked_on text COLLATE "C",
    blocked_capacity integer,
    blocked_until_end boolean,
    granted_at bigint,
    granted_by text COLLATE "C",
    cancel_wanted text,
    origin bigint,
    args text,
    caught_up_at bigint
) WITH {autovacuum_vacuum_scale_factor=0.05,autovacuum_vacuum_threshold=1000,autovacuum_vacuum_insert_scale_factor=0.2};
CREATE INDEX runs_blocked ON runs USING btree (blocked_on, due_at, id) WHERE (blocked_on IS NOT NULL);
CREATE INDEX runs_blocked_most ON runs USING btree (blocked_on, blocked_capacity) WHERE ((blocked_on IS NOT NULL) AND (blocked_capacity IS NOT NULL));
CREATE INDEX runs_due ON runs USING btree (due_at, id) WHERE (due_at <= '4611686018427387904'::bigint);
CREATE INDEX runs_expiring ON runs USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE UNIQUE INDEX runs_key ON runs USING btree (job_id, slot_at, trigger, target);
CREATE UNIQUE INDEX runs_pkey ON runs USING btree (id);
CREATE INDEX runs_ranked ON runs USING btree (route, rank, id) WHERE (rank IS NOT NULL);
CREATE INDEX runs_ready ON runs USING btree (route, priority, ready_at, id) WHERE ((state <> 'running'::text) AND (rank IS NULL));
CREATE INDEX runs_unwanted ON runs USING btree (incarnation) WHERE (cancel_wanted IS NOT NULL);

CREATE TABLE schedules (
    job_id bigint NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    bucket smallint NOT NULL,
    origin bigint NOT NULL,
    watermark bigint NOT NULL,
    next_at bigint,
    last_end bigint,
    delay bigint,
    armed_to bigint,
    zoned boolean NOT NULL DEFAULT false
);
CREATE INDEX schedules_due ON schedules USING btree (next_at, job_id, schedule_id, bucket) WHERE (next_at IS NOT NULL);
CREATE UNIQUE INDEX schedules_pkey ON schedules USING btree (job_id, schedule_id);
CREATE INDEX schedules_zoned ON schedules USING btree (job_id, schedule_id, bucket) WHERE zoned;

CREATE TABLE skips (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    job_id bigint NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    count bigint NOT NULL,
    reason text NOT NULL,
    recorded_at bigint NOT NULL
);
CREATE INDEX skips_last ON skips USING btree (job_id, schedule_id, last);
CREATE UNIQUE INDEX skips_pkey ON skips USING btree (id);

CREATE TABLE submit_keys (
    job_id bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    run_id bigint NOT NULL,
    args text,
    created_at bigint NOT NULL
);
CREATE UNIQUE INDEX submit_keys_pkey ON submit_keys USING btree (job_id, key);
CREATE INDEX submit_keys_run ON submit_keys USING btree (run_id);

CREATE TABLE term_history (
    shard integer NOT NULL,
    number bigint NOT NULL,
    incarnation text NOT NULL,
    began_at bigint NOT NULL
);
CREATE UNIQUE INDEX term_history_pkey ON term_history USING btree (shard, number);

CREATE TABLE terms (
    shard integer NOT NULL,
    number bigint NOT NULL,
    incarnation text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    ttl bigint NOT NULL,
    layout integer NOT NULL,
    tzdata text NOT NULL,
    zones text NOT NULL
) WITH {fillfactor=50};
CREATE UNIQUE INDEX terms_pkey ON terms USING btree (shard);

CREATE TABLE turns (
    queue text COLLATE "C" NOT NULL,
    share text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    ends bigint NOT NULL
);
CREATE UNIQUE INDEX turns_pkey ON turns USING btree (queue, share, priority);
