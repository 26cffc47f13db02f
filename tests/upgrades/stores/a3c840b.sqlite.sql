BEGIN TRANSACTION;
PRAGMA user_version = 1;
PRAGMA application_id = 1330922545;
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
INSERT INTO "attempts" VALUES(2,1,'53da0363513e57f17778-0',17,'old-1',1,'succeeded',NULL,1767225600000001,1767225910000000,1767225910000000,1767225910000000,1767225910250000);
INSERT INTO "attempts" VALUES(4,1,'a454f54a304a61b8bf21-0',1,'old-1',1,'succeeded',NULL,1767225620000000,1767225620000000,1767225620000000,1767225620000000,1767225620250000);
INSERT INTO "attempts" VALUES(6,1,'43e2a0c30c9de54b114c-0',2,'old-1',1,'succeeded',NULL,1767225620250000,1767225620250000,1767225620250000,1767225620250000,1767225620500000);
INSERT INTO "attempts" VALUES(8,1,'43e2a0c30c9de54b114c-2',3,'old-1',1,'succeeded',NULL,1767225620250000,1767225620250000,1767225620250000,1767225620500000,1767225620750000);
INSERT INTO "attempts" VALUES(9,1,'59b90770008b4e283e0d-0',4,'old-1',1,'failed','ConnectionError: page 4',1767225620750000,1767225620750000,1767225620750000,1767225620750000,1767225621000000);
INSERT INTO "attempts" VALUES(10,1,'0efdd8acf3bd41ee1f0f-0',5,'old-1',1,'succeeded',NULL,1767225621000000,1767225621000000,1767225621000000,1767225621000000,1767225621250000);
INSERT INTO "attempts" VALUES(13,1,'f84b9ab68e68f3456e46-0',6,'old-1',1,'failed','ValueError: row 17 is bad',1767225650000000,1767225650000000,1767225650000000,1767225650000000,1767225650250000);
INSERT INTO "attempts" VALUES(14,1,'4737cbe79bd47a1d4b9e-0',7,'old-1',1,'failed','ValueError: row 99 is bad',1767225650250000,1767225650250000,1767225650250000,1767225650250000,1767225650500000);
INSERT INTO "attempts" VALUES(15,1,'f1eeff693a1e176aa4b1-0',8,'old-1',1,'failed','OSError: no disk',1767225650500000,1767225650500000,1767225650500000,1767225650500000,1767225650750000);
INSERT INTO "attempts" VALUES(16,1,'a4b4704e7c86bab25cb9-0',9,'old-1',1,'failed','KeyError: ''x''',1767225650750000,1767225650750000,1767225650750000,1767225650750000,1767225651000000);
INSERT INTO "attempts" VALUES(22,1,'a8d200d6b2d5032acbda-0',14,'old-1',1,'succeeded',NULL,1767225660000000,1767225660000000,1767225660000000,1767225660000000,1767225660250000);
INSERT INTO "attempts" VALUES(23,1,'a8d200d6b2d5032acbda-1',15,'old-1',1,'succeeded',NULL,1767225660000000,1767225660000000,1767225660000000,1767225660250000,1767225660500000);
INSERT INTO "attempts" VALUES(32,1,'769189929868fd0b79e3-0',16,'old-1',1,'succeeded',NULL,1767225900000000,1767225900000000,1767225900000000,1767225900000000,1767225900250000);
INSERT INTO "attempts" VALUES(35,1,'881f217ef2cd27e2c9a9-0',18,'old-2',1,'lost','its node was lost',1767225950000000,1767225950000000,1767225950000000,NULL,1767226000000000);
CREATE TABLE checkpoints (  -- how far runs have come: the newest one of each, kept as long as the run
    run_id     INTEGER PRIMARY KEY,
    revision   INTEGER NOT NULL,  -- counts them, through all attempts
    value      TEXT NOT NULL,     -- JSON
    written_at INTEGER NOT NULL
) STRICT;
INSERT INTO "checkpoints" VALUES(9,1,'{"page":3}',1767225620750000);
CREATE TABLE daily_counts (  -- what is left of history once it has been pruned
    job_id INTEGER NOT NULL,
    day    INTEGER NOT NULL,  -- days since 1970-01-01 UTC
    state  TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (job_id, day, state)
) STRICT, WITHOUT ROWID;
INSERT INTO "daily_counts" VALUES(21,20454,'dead',1);
INSERT INTO "daily_counts" VALUES(21,20454,'succeeded',3);
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
INSERT INTO "dependencies" VALUES('default','extract',16,0,'success',NULL,NULL);
INSERT INTO "dependencies" VALUES('default','extract',17,0,'either',4,1767225620250000);
INSERT INTO "dependencies" VALUES('default','other',17,0,'either',NULL,NULL);
CREATE TABLE documents (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL,  -- from one sequence: never given out twice
    body       TEXT NOT NULL,     -- JSON
    written_at INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT;
INSERT INTO "documents" VALUES('applied','qa/pipeline',1,'{"source": "pipeline.yaml"}',1767225600000000);
INSERT INTO "documents" VALUES('user','ann',2,'{"grant": {"role": "admin", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "disabled": false, "epoch": "c11172780ac30402d3d9f55dfaa92e7f", "password": "$argon2id$v=19$m=65536,t=3,p=4$MDEyMzQ1Njc4OWFiY2RlZg$UiBIPUuhY3xdXfQ7N3p/au05phWWk9ACmj5PdtUGaas", "issuer": "", "subject": ""}',1767225605000000);
INSERT INTO "documents" VALUES('user','eve',4,'{"grant": {"role": "viewer", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "disabled": true, "epoch": "387c29f85fc12eff8fc8001da8583693", "password": "$argon2id$v=19$m=65536,t=3,p=4$MDEyMzQ1Njc4OWFiY2RlZg$YppNfryE9uJpduriroT8hFahWbP4/tHz+tPsBSfslf0", "issuer": "", "subject": ""}',1767225605000000);
INSERT INTO "documents" VALUES('user','pat@example.org',5,'{"grant": {"role": "editor", "scopes": null, "may_code": false, "namespaces": ["qa"], "owner": "", "only_own": false}, "made_at": 1767225605000000, "disabled": false, "epoch": "91250c3e674a1c9077872ebb57f5830e", "password": "", "issuer": "", "subject": ""}',1767225605000000);
INSERT INTO "documents" VALUES('key','1a1c15d99f37fec',6,'{"name": "ci", "grant": {"role": "operator", "scopes": null, "may_code": false, "namespaces": ["default", "qa"], "owner": "ci", "only_own": false}, "made_at": 1767225605000000, "made_by": "local", "expires_at": null, "revoked_at": null, "proof": "8059a3122e5c02e40feb381c2f73fb10df3970d00e0ff767d315ffb53ee9a434"}',1767225605000000);
INSERT INTO "documents" VALUES('key.used','1a1c15d99f37fec',7,'{"used_at": 1767225605000000}',1767225605000000);
INSERT INTO "documents" VALUES('key','824c73ce9fc7784',8,'{"name": "short", "grant": {"role": "viewer", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "made_by": "local", "expires_at": 1767229205000000, "revoked_at": null, "proof": "653baad4c3aa0ab15bc7e25750329d42808bddfcaebe8a02faf6850365b3cad3"}',1767225605000000);
INSERT INTO "documents" VALUES('key','36d9824ca6f1bba',10,'{"name": "gone", "grant": {"role": "viewer", "scopes": null, "may_code": false, "namespaces": [], "owner": "", "only_own": false}, "made_at": 1767225605000000, "made_by": "local", "expires_at": null, "revoked_at": 1767225605000000, "proof": ""}',1767225605000000);
INSERT INTO "documents" VALUES('secret','default/DB_PASSWORD',11,'{"key": "2aac7d97fccc", "sealed": "WNhnYFtmQhfZz0M7W+T61Rl7AawGxz4DCLZ25BEM48zDvRukDQ1g"}',1767225605000000);
CREATE TABLE entries (  -- lists that only grow
    kind       TEXT NOT NULL,
    number     INTEGER NOT NULL,
    key        TEXT,           -- of its caller, who may have to ask again
    body       TEXT NOT NULL,  -- JSON
    written_at INTEGER NOT NULL,
    PRIMARY KEY (kind, number)
) STRICT;
INSERT INTO "entries" VALUES('audit',1,'115de576d63ebc1b50506152327df060','{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "users.create", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\u2026"}}}',1767225605000000);
INSERT INTO "entries" VALUES('audit',2,'aa89d4c8bc7f7f6f72c2ced40ffc13f7','{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "jobs.put", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\u2026"}}}',1767225606000000);
INSERT INTO "entries" VALUES('audit',3,'ee2303889e78c8ba2a828bed7e0e3559','{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "jobs.pause", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\u2026"}}}',1767225607000000);
INSERT INTO "entries" VALUES('audit',4,'bd53efa11094fa7942ed0a8ac2540ffb','{"who": {"kind": "session", "id": "s1", "name": "ann"}, "verb": "keys.revoke", "object": "job/default/report", "namespace": "default", "owner": "ann", "request_id": "r1", "source": "192.0.2.7", "before": null, "after": {"name": "report", "args": {"region": "\u2026"}}}',1767225608000000);
INSERT INTO "entries" VALUES('audit.seals',1,'0:0000000000000000000000000000000000000000000000000000000000000000','{"previous": "0000000000000000000000000000000000000000000000000000000000000000", "entries": [[1, "0d6b450c1502143cb463548aeeeacebe1a5e41c2aba2e1236f29695a9cb9f03d"], [2, "c540997407821e166ee9e55176307cfed6d8038fc204ddbf22b0adf0d1108f53"], [3, "2f4bf8812df86dda9a1d0f9d40518ca46c1267485e678018c2b55f2e7a67a752"]]}',1767225609000000);
CREATE TABLE exceptions (  -- slots whose fate was given ahead
    job_id      INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    slot_at     INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    recorded    INTEGER NOT NULL,  -- 1: the ledger has its entry, a skipped run or a skip
    run_id      INTEGER,           -- the run that takes its place
    PRIMARY KEY (job_id, schedule_id, slot_at)
) STRICT, WITHOUT ROWID;
INSERT INTO "exceptions" VALUES(1,'a416daf5a6',1767254400000000,'moved',0,33);
INSERT INTO "exceptions" VALUES(1,'a416daf5a6',1767340800000000,'cancelled',0,NULL);
INSERT INTO "exceptions" VALUES(2,'efe8f879eb',4102401600000000,'moved',0,34);
INSERT INTO "exceptions" VALUES(2,'efe8f879eb',4115534400000000,'cancelled',0,NULL);
INSERT INTO "exceptions" VALUES(3,'1b94e348c1',1767225620000000,'moved',1,3);
CREATE TABLE gate_holders (
    key       TEXT NOT NULL,
    run_id    INTEGER NOT NULL,
    until_end INTEGER NOT NULL,  -- 1: kept through back-off, to the terminal state
    PRIMARY KEY (key, run_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "gate_holders" VALUES('limit:name:db:',38,0);
INSERT INTO "gate_holders" VALUES('overlap:28:',36,1);
INSERT INTO "gate_holders" VALUES('running:19:',41,0);
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
INSERT INTO "history" VALUES(1,3,'skipped',1767225620000000,1767225620000000,0,0,0,1767225600000000,NULL,NULL,1767225602000000,'default',1,'schedule:1b94e348c1','','moved',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "history" VALUES(2,5,'succeeded',1767225600000001,1767225600000001,1,0,0,1767225600000000,1767225910000000,1767225910000000,1767225910250000,'default',1,'schedule:a0493c3f62','','',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "history" VALUES(4,14,'succeeded',1767225620000000,1767225620000000,1,0,0,1767225620000000,1767225620000000,1767225620000000,1767225620250000,'default',1,'submit:186cacca6204db13798024811c2cb65d','','',NULL,NULL,NULL,'{"rows":3}',NULL);
INSERT INTO "history" VALUES(6,9,'succeeded',1767225620250000,1767225620250000,1,0,0,1767225620250000,1767225620250000,1767225620250000,1767225620500000,'default',1,'submit:ee496e3744aaa6a5a684842ce70a76d5','','',NULL,'{"tenant":"a"}',NULL,NULL,NULL);
INSERT INTO "history" VALUES(8,9,'succeeded',1767225620250000,1767225620250000,1,0,0,1767225620250000,1767225620250000,1767225620500000,1767225620750000,'default',1,'submit:bd3bdbd61778abc8e9c49b88e6037730','','',NULL,'{"tenant":"b"}',NULL,NULL,NULL);
INSERT INTO "history" VALUES(10,22,'succeeded',1767225621000000,1767225621000000,1,0,0,1767225621000000,1767225621000000,1767225621000000,1767225621250000,'default',1,'submit:940f01f4abb208bda804206fd6b67047','','',NULL,NULL,NULL,'"bye"',NULL);
INSERT INTO "history" VALUES(11,26,'cancelled',1767229221250000,1767229221250000,0,0,0,1767225621250000,NULL,NULL,1767225621250000,'default',1,'submit:5c8f8574e1df586879391b3ae362d424','','not needed',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "history" VALUES(12,15,'skipped',1767225622250000,1767225622250000,0,0,0,1767225621250000,NULL,NULL,1767225640000000,'default',1,'submit:ad819a768e0a7c4ce812a2e44687d43d','','expired',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "history" VALUES(13,13,'dead',1767225650000000,1767225650000000,1,1,0,1767225650000000,1767225650000000,1767225650000000,1767225650250000,'default',1,'submit:7760ce8c8828269db608a86d59ec84a7','','no tries left',NULL,'{"n":0}','ValueError: row 17 is bad',NULL,NULL);
INSERT INTO "history" VALUES(14,13,'dead',1767225650250000,1767225650250000,1,1,0,1767225650250000,1767225650250000,1767225650250000,1767225650500000,'default',1,'submit:ed4ccc9a0843e82ae1cab8443f2d7a00','','no tries left',NULL,'{"n":1}','ValueError: row 99 is bad',NULL,NULL);
INSERT INTO "history" VALUES(15,13,'dead',1767225650500000,1767225650500000,1,1,0,1767225650500000,1767225650500000,1767225650500000,1767225650750000,'default',1,'submit:ea25ac943a38b1beacc4a2d67eee19fa','','no tries left',NULL,'{"n":2}','OSError: no disk',NULL,'replayed:17');
INSERT INTO "history" VALUES(16,13,'dead',1767225650750000,1767225650750000,1,1,0,1767225650750000,1767225650750000,1767225650750000,1767225651000000,'default',1,'submit:d83a3708e947fbe58879eeeba60cccd9','','no tries left',NULL,'{"n":3}','KeyError: ''x''',NULL,'discarded:known');
INSERT INTO "history" VALUES(22,20,'succeeded',1767225660000000,1767225660000000,1,0,0,1767225660000000,1767225660000000,1767225660000000,1767225660250000,'bulk',1,'submit:0063a1609e9ae829501223aff6b1d36c','','',NULL,'{"tenant":"gold"}',NULL,NULL,NULL);
INSERT INTO "history" VALUES(23,20,'succeeded',1767225660000000,1767225660000000,1,0,0,1767225660000000,1767225660000000,1767225660250000,1767225660500000,'bulk',1,'submit:2b271f3676cfe3cddfdcaa4db9d4011d','','',NULL,'{"tenant":"free"}',NULL,NULL,NULL);
INSERT INTO "history" VALUES(32,4,'succeeded',1767225900000000,1767225900000000,1,0,0,1767225890000000,1767225900000000,1767225900000000,1767225900250000,'default',1,'schedule:1547a12ebe','','',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "history" VALUES(35,18,'lost',1767225950000000,1767225950000000,1,0,0,1767225950000000,1767225950000000,NULL,1767226000000000,'default',1,'submit:5957ff8b0778ba8ec9ebed6c891a4cb2','','node gone',NULL,'{"n":1}','its node was lost',NULL,NULL);
CREATE TABLE job_revisions (  -- every definition that ever was
    job_id     INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    definition TEXT NOT NULL,  -- canonical JSON
    created_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, revision)
) STRICT;
INSERT INTO "job_revisions" VALUES(1,1,'{"args":{"region":"eu"},"name":"report","owner":"ann","retry":{"attempts":3},"schedules":[{"expression":"0 9 * * *","fold":"first","gap":"run_after","id":"","kind":"cron","run_once":false,"tz":"Europe/Berlin"}],"task":{"handler":"report","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(2,1,'{"name":"centenary","schedules":[{"id":"","instant":"2099-12-31T12:00:00+00:00","kind":"at","more":["2100-06-01T12:00:00+00:00","2100-12-31T12:00:00+00:00"]}],"task":{"handler":"centenary","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(3,1,'{"name":"parade","schedules":[{"id":"","instant":"2026-01-01T00:00:20+00:00","kind":"at","more":["2099-05-01T12:00:00+00:00"]}],"task":{"handler":"parade","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(4,1,'{"name":"poll","overlap":{"mode":"skip"},"schedules":[{"anchor":null,"end":"2026-01-01T00:05:00+00:00","id":"","interval_us":60000000,"kind":"every","run_once":false}],"task":{"handler":"poll","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(5,1,'{"catch_up":{"limit":3,"mode":"all","window_us":7200000000},"name":"drip","schedules":[{"delay_us":3600000000,"id":"","kind":"gap","start":null}],"task":{"handler":"drip","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(6,1,'{"name":"newest","overlap":{"mode":"replace"},"schedules":[{"anchor":null,"id":"","interval_us":7200000000,"kind":"every","run_once":false,"start":"2125-12-08T00:00:00+00:00"}],"task":{"handler":"newest","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(7,1,'{"name":"frozen","priority":"high","schedules":[{"anchor":null,"id":"","interval_us":3600000000,"kind":"every","run_once":false}],"task":{"handler":"frozen","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(8,1,'{"name":"halted","schedules":[{"anchor":null,"id":"","interval_us":3600000000,"kind":"every","run_once":false}],"task":{"handler":"halted","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(9,1,'{"name":"mail","rate":{"burst":1,"key":"tenant","most":1,"name":"","per_us":60000000},"task":{"handler":"mail","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(10,1,'{"concurrency":{"key":"","most":1,"name":"db"},"name":"load_db","retry":{"attempts":2},"task":{"handler":"load_db","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(11,1,'{"concurrency":{"key":"","most":1,"name":"db"},"name":"clean_db","task":{"handler":"clean_db","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(12,1,'{"name":"crawl","retry":{"attempts":3,"backoff":"fixed","delay_us":10000000,"jitter":false},"task":{"handler":"crawl","kind":"call"},"timeout_us":300000000}',1767225600000000);
INSERT INTO "job_revisions" VALUES(13,1,'{"name":"flaky","task":{"handler":"flaky","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(14,1,'{"name":"extract","task":{"handler":"extract","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(15,1,'{"name":"other","task":{"handler":"other","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(16,1,'{"after":{"any":false,"on":"success","parents":["extract"]},"name":"load","task":{"handler":"load","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(17,1,'{"after":{"any":false,"on":"either","parents":["extract","other"]},"name":"merge","task":{"handler":"merge","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(18,1,'{"guarantee":"at_most_once","name":"careful","task":{"handler":"careful","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(19,1,'{"name":"errand","overlap":{"max_running":2,"mode":"allow"},"task":{"handler":"errand","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(20,1,'{"name":"bulk","queue":"bulk","share":"tenant","task":{"handler":"bulk","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(21,1,'{"name":"tally","task":{"handler":"tally","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(22,1,'{"name":"legacy","task":{"handler":"legacy","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(23,1,'{"labels":["gpu"],"name":"everywhere","on":"all","schedules":[{"id":"","instant":"2099-01-01T00:00:00+00:00","kind":"at"}],"task":{"handler":"everywhere","kind":"call"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(24,1,'{"name":"backup","owner":"bob","queue":"programs","task":{"argv":["echo","saved"],"env":{"LEVEL":"full"},"kind":"command"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(25,1,'{"name":"hook","queue":"web","task":{"body":{"done":true},"kind":"http","method":"POST","url":"https://example.org/hook"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(26,1,'{"name":"nap","task":{"duration_us":0,"kind":"sleep"}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(27,1,'{"name":"pipeline","namespace":"qa","owner":"bob","params":[{"default":"1","name":"version"}],"queue":"programs","task":{"kind":"steps","steps":[{"env":{"VERSION":"${{ params.version }}"},"name":"build","script":"echo \"building $VERSION\""},{"name":"publish","script":"echo published"}]}}',1767225600000000);
INSERT INTO "job_revisions" VALUES(1,2,'{"args":{"region":"world"},"name":"report","owner":"ann","retry":{"attempts":3},"schedules":[{"expression":"0 9 * * *","fold":"first","gap":"run_after","id":"","kind":"cron","run_once":false,"tz":"Europe/Berlin"}],"task":{"handler":"report","kind":"call"}}',1767225602000000);
INSERT INTO "job_revisions" VALUES(28,1,'{"name":"sync","overlap":{"max_waiting":1,"mode":"wait"},"schedules":[{"anchor":null,"end":"2026-01-01T00:25:00+00:00","id":"","interval_us":600000000,"kind":"every","run_once":false}],"task":{"handler":"sync","kind":"call"}}',1767226195000000);
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
INSERT INTO "jobs" VALUES(1,'default','report','ann','active',2,'call:report','default','default',1,'',1,'425687023940d60e0329b6ca78477106aaec120fb3d24529488b9ccacecb66e0',1767225600000000,1767225602000000,'',NULL);
INSERT INTO "jobs" VALUES(2,'default','centenary','','active',1,'call:centenary','default','default',1,'',1,'c45253b26f110db93116a6aed3ec9f107e056d5af9b3b31f73c5ee23e86042c2',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(3,'default','parade','','active',1,'call:parade','default','default',1,'',1,'80ce8c3fa841192d4bacea8ed523e11be804e493d4208c920e7549980d7d8c5b',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(4,'default','poll','','active',1,'call:poll','default','default',1,'',1,'d1f41372cb999521a7422c49e4bf0cac1bf89dccc0978d344551be7457bbb299',1767225600000000,1767225890000000,'',NULL);
INSERT INTO "jobs" VALUES(5,'default','drip','','active',1,'call:drip','default','default',1,'',1,'f68331f7378e38aa71b85b22db054952a715e830890353900bec7bb26c40d360',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(6,'default','newest','','active',1,'call:newest','default','default',1,'',1,'5f9ee1d86aeb93ca15c42f9a2ea574014138df6850cb93885dec271bde4f27cf',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(7,'default','frozen','','paused',1,'call:frozen','default','default',2,'',1,'f085144d9fa36670393b558afc2fdb14e0042c1d31ced42b5a6b368600bf448a',1767225600000000,1767225690000000,'stocktaking',NULL);
INSERT INTO "jobs" VALUES(8,'default','halted','','paused',1,'call:halted','default','default',1,'',1,'c88fad415788ec3c4d99e655e48f7552498e117a093b83acdc42040eea04e0a7',1767225600000000,1767225690000000,'until later',4070908800000000);
INSERT INTO "jobs" VALUES(9,'default','mail','','active',1,'call:mail','default','default',1,'',1,'9569d0593bb724f7a5e14db200267e964b265950fde9fcd4606931f7f30623f4',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(10,'default','load_db','','active',1,'call:load_db','default','default',1,'',1,'cec2669c65a3b017a3f6fea3f463190f8f9f0e32c4dc954efbf970391cff795f',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(11,'default','clean_db','','active',1,'call:clean_db','default','default',1,'',1,'2a6be948e5d943738a60feed88901ca485391583ce194a52547e6f638fa6065a',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(12,'default','crawl','','active',1,'call:crawl','default','default',1,'',0,'62d7c508015b752053ffcf0f7aeeb69866f7e58f047528d8190b180140f05573',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(13,'default','flaky','','active',1,'call:flaky','default','default',1,'',0,'7dbae7ff3bd2dec0166cead6846a8487739f7c64ea105de11d05e988fef0eed9',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(14,'default','extract','','active',1,'call:extract','default','default',1,'',0,'d5a75b74d58177a589f9a8489f77a3ec17b1224453aba49c175a5f8992ab8653',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(15,'default','other','','active',1,'call:other','default','default',1,'',0,'f785a125d84bc6ad1fef92e54e6e5685d79922e70b447b41cf7cc35986a8b148',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(16,'default','load','','active',1,'call:load','default','default',1,'',0,'62b08b8fe9a5ec6076755d503a5e8e2303a8bb7aa936d04c65d06a093ed91b6c',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(17,'default','merge','','active',1,'call:merge','default','default',1,'',0,'cf03ad16b277dd882dd4c981fae7bbf313d392bc7da79ad52113dc0debeb2d4b',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(18,'default','careful','','active',1,'call:careful','default','default',1,'',0,'b6adeca78906ce3a494c121e0c99e0613002bb13538bf9794ba9d2f3081b7c24',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(19,'default','errand','','active',1,'call:errand','default','default',1,'',1,'55af6cb9dd6ee3a1e3b51e625b7142a41792e04b149fd51b572d6a9445e1fee9',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(20,'default','bulk','','active',1,'call:bulk','bulk','bulk',1,'tenant',0,'9839848fd076c411c5316a5db302d780b82b120db00c29cea6dac2dce9112c44',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(21,'default','tally','','active',1,'call:tally','default','default',1,'',0,'b3781aa5e08ca79534ebb7f470dcc63b43b12ef2999f8298a1e0507ba0b204b6',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(22,'default','legacy','','deleted',1,'call:legacy','default','default',1,'',0,'ecdbab02f2d9727869a28897ab047f5be80d96583d9e5ee4522304b814e2c3ee',1767225600000000,1767225621250000,'',NULL);
INSERT INTO "jobs" VALUES(23,'default','everywhere','','active',1,'call:everywhere','default','default	gpu',1,'',1,'0d27add6db52be989940d69842769f6af827da83f6bbcef2cd43bfcc39de71b0',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(24,'default','backup','bob','active',1,'command','programs','programs',1,'',0,'0bc7ecdae471f38ddf6b1bcf838e599434c8c20a05aec681fb53c27aa8ff315c',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(25,'default','hook','','active',1,'http','web','web',1,'',0,'ba9185d7ec29cff1ef72b7de6a5562aba9f09515a4d1eda59e51fe2c651a7f9c',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(26,'default','nap','','active',1,'sleep','default','default',1,'',0,'0c16fee7833ed0d1922d06d71e6f56c38cbb95ac58c21945929b872c2a18badf',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(27,'qa','pipeline','bob','active',1,'steps','programs','programs',1,'',0,'cc5cee43dd58dae13edac841a8fea3deb13802aa1ab2e423b0eedfcb93dd7513',1767225600000000,1767225600000000,'',NULL);
INSERT INTO "jobs" VALUES(28,'default','sync','','active',1,'call:sync','default','default',1,'',1,'3bf1652abf6d870d067f89d737bd4c5741d276a492e625154966b91ebf7e9311',1767226195000000,1767226195000000,'',NULL);
CREATE TABLE layouts (  -- how the buckets are divided; the newest counts
    version INTEGER PRIMARY KEY,
    shards  INTEGER NOT NULL,
    since   INTEGER NOT NULL
) STRICT;
INSERT INTO "layouts" VALUES(1,1,0);
INSERT INTO "layouts" VALUES(2,2,1767225600000000);
CREATE TABLE meta (  -- counters that only grow: the last job id, run id, … given out; hints of each kind
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('document',11);
INSERT INTO "meta" VALUES('fence',22);
INSERT INTO "meta" VALUES('hint:beats',1);
INSERT INTO "meta" VALUES('hint:ends',20);
INSERT INTO "meta" VALUES('hint:runs',72);
INSERT INTO "meta" VALUES('hint:schedules',31);
INSERT INTO "meta" VALUES('hint:terms',4);
INSERT INTO "meta" VALUES('job',28);
INSERT INTO "meta" VALUES('run',42);
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
INSERT INTO "nodes" VALUES(1,'old-1-92f3d2bca7329e3a4a2090f4c4422278','old-1','host.example',4711,'["planner", "worker"]','{"queues": ["default", "bulk"], "labels": [], "tasks": [], "seats": 64}',0,1767225600000000,15000000,1767227409000000,NULL,0,0,0,'2025b');
INSERT INTO "nodes" VALUES(2,'old-2-9f583df078d0666f4d86cfe7c9c0ffc7','old-2','host.example',4711,'["planner", "worker"]','{"queues": ["default", "bulk"], "labels": [], "tasks": [], "seats": 64}',0,1767225600000000,360000000,1767225960000000,NULL,1,1,0,'2025b');
INSERT INTO "nodes" VALUES(3,'old-2-d7bb8348cf68ee01b0d0946f4bc40f1b','old-2','host.example',4711,'["planner", "worker"]','{"queues": ["default", "bulk"], "labels": [], "tasks": [], "seats": 64}',0,1767226000000000,15000000,1767226000000000,1767226000000000,1,0,0,'2025b');
CREATE TABLE notes (  -- what attempts tell while they run
    run_id   INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    number   INTEGER NOT NULL,  -- of the newest note: an older one comes too late
    progress TEXT,              -- JSON: how much is done, and of how much
    log      TEXT,              -- bounded by who writes it
    PRIMARY KEY (run_id, attempt)
) STRICT;
INSERT INTO "notes" VALUES(9,1,1,'[3, 10]','page 3
');
CREATE TABLE queues (  -- what somebody has said about a queue; every other name is one, too
    name         TEXT PRIMARY KEY,
    paused_at    INTEGER,
    reason       TEXT NOT NULL DEFAULT '',
    weights      TEXT,                        -- JSON: it is shared fairly, and how
    virtual_time INTEGER NOT NULL DEFAULT 0   -- the latest turn that was taken
) STRICT, WITHOUT ROWID;
INSERT INTO "queues" VALUES('bulk',NULL,'','{"gold": 3, "free": 1}',0);
INSERT INTO "queues" VALUES('web',1767225660500000,'maintenance',NULL,0);
CREATE TABLE rates (  -- one row per key that was busy of late
    key   TEXT PRIMARY KEY,
    tat   INTEGER NOT NULL,  -- when the next start would come if all were evenly spaced: tat + part/parts
    part  INTEGER NOT NULL,
    parts INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "rates" VALUES('rate:job:9:"a"',1767225740250000,0,1);
INSERT INTO "rates" VALUES('rate:job:9:"b"',1767225680250000,0,1);
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
INSERT INTO "runs" VALUES(3,3,'scheduled','default',1,NULL,'default','',4081406400000000,4081406400000000,4081406400000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225602000000,'manual:f5b01f04ca4f9a19d64fad9fca81aad0','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(5,16,'scheduled','default',1,NULL,'default','',1767225620250000,1767225620250000,1767225620250000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225620250000,'after:4','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(7,9,'scheduled','default',1,NULL,'default','',1767225620250000,1767225680250000,1767225680250000,NULL,0,0,0,0,'43e2a0c30c9de54b114c-1',NULL,NULL,NULL,NULL,NULL,1767225620250000,'submit:e11484bd9857c43bfc68bf1ddfd9a019','','waits at rate:job:9:"a", starts at 2026-01-01T00:01:20.250000+00:00',NULL,NULL,NULL,1767225680250000,'rate:job:9:"a"',NULL,NULL,'{"tenant":"a"}');
INSERT INTO "runs" VALUES(9,12,'scheduled','default',1,NULL,'default','',1767225620750000,1767225630750000,1767225630750000,NULL,1,1,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225620750000,'submit:30d3afb632c2278df596f0e02aa0aa50','','retry',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"site":"one"}');
INSERT INTO "runs" VALUES(17,13,'scheduled','default',1,NULL,'default','',1767225650500000,1767225651000000,1767225651000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225651000000,'rerun:15','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"n":2}');
INSERT INTO "runs" VALUES(24,20,'scheduled','~bulk',1,1398101,'bulk','gold',1767225660000000,1767225660000000,1767225660000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225660000000,'submit:1555c38cad1aeb3831604a4ecf5daeb0','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"tenant":"gold"}');
INSERT INTO "runs" VALUES(25,20,'scheduled','~bulk',1,4194304,'bulk','free',1767225660000000,1767225660000000,1767225660000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225660000000,'submit:f48f60b7cd8f8a60a928d485d5bbe6df','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"tenant":"free"}');
INSERT INTO "runs" VALUES(26,20,'scheduled','~bulk',1,2796202,'bulk','gold',1767225660000000,1767225660000000,1767225660000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225660000000,'submit:5a2a1a3dd9f225bbf19ba27a0065fd4f','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"tenant":"gold"}');
INSERT INTO "runs" VALUES(27,20,'scheduled','~bulk',1,8388608,'bulk','free',1767225660000000,1767225660000000,1767225660000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225660000000,'submit:f480aceea8a581bc350de0fd4a4bcd97','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"tenant":"free"}');
INSERT INTO "runs" VALUES(28,25,'scheduled','web',1,NULL,'web','',1767225660500000,1767225660500000,1767225660500000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225660500000,'submit:0e896fafb44c33c82bf1a13ec1ad4521','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(29,24,'scheduled','programs',1,NULL,'programs','',1767225660500000,1767225660500000,1767225660500000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225660500000,'submit:07fa5696b0b92434e4d8a1939feffb7e','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(30,27,'scheduled','programs',1,NULL,'programs','',1767225660500000,1767225660500000,1767225660500000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225660500000,'submit:0aaed6435be62976f8f0784177a62c9a','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"version":"7"}');
INSERT INTO "runs" VALUES(31,7,'scheduled','default',2,NULL,'default','',1767225690000000,1767225690000000,4611686018427387904,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225690000000,'submit:ec7149270bf6b9228ed6edd92856eb2f','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(33,1,'scheduled','default',1,NULL,'default','',1767261600000000,1767261600000000,1767261600000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225920000000,'manual:fe991014ad9f3ee06718543bab7c4323','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(34,2,'scheduled','default',1,NULL,'default','',4102405200000000,4102405200000000,4102405200000000,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767225920000000,'manual:eab3e7a5258d81d81a8cbc1f6b63125c','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(36,28,'running','default',1,NULL,'default','',1767226200000000,1767226200000000,1767226200500000,NULL,1,0,0,0,'092ee4c30ad031af3e7f-0',19,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1,1767226200000000,1767226200000000,1767226195000000,'schedule:a557bc224e','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(37,28,'scheduled','default',1,NULL,'default','',1767226800000000,1767226800000000,4611686018427387904,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767226790000000,'schedule:a557bc224e','','waits for run 36','overlap:28:',1,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(38,10,'running','default',1,NULL,'default','',1767227390000000,1767227390000000,1767227390500000,NULL,1,0,0,0,'cc470e0b95fab2e89033-0',20,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1,1767227390000000,1767227390000000,1767227390000000,'submit:dc6cc98ade486d30a5ed46728ba85c0d','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"table":"orders"}');
INSERT INTO "runs" VALUES(39,11,'scheduled','default',1,NULL,'default','',1767227390000000,1767227390000000,4611686018427387904,NULL,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1767227390000000,'submit:673cfffea9ddf9d347cd8859b60cd9de','','waits for run 38','limit:name:db:',1,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES(40,18,'running','default',1,NULL,'default','',1767227390000000,1767227390000000,1767227390000000,NULL,1,0,0,0,'186c32b80457f8449723-0',21,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1,1767227390000000,1767227390000000,1767227390000000,'submit:762e79a2a15a401a176aee4d591ef121','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"n":2}');
INSERT INTO "runs" VALUES(41,19,'running','default',1,NULL,'default','',1767227390000000,1767227390000000,1767227390500000,NULL,1,0,0,0,'5d5aaedc8b572a7c90b5-0',22,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1,1767227390000000,1767227390000000,1767227390000000,'submit:25fc4df267032df3b6d519de2f4411d6','','',NULL,NULL,NULL,NULL,NULL,'enough',NULL,'{"n":1}');
INSERT INTO "runs" VALUES(42,19,'reserved','default',1,NULL,'default','',1767227395000000,1767227395000000,1767227395500000,NULL,0,0,0,0,'273dd2ce0715fc83f5b0-0',NULL,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1,1767227390000000,NULL,1767227390000000,'submit:41e7f1855a27006b7564ce23170e00a0','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"n":2}');
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
INSERT INTO "schedules" VALUES(1,'a416daf5a6',886,1767225600000000,1767225632000000,1767254400000000,NULL,NULL,NULL,1);
INSERT INTO "schedules" VALUES(2,'efe8f879eb',876,1767225600000000,1767225630000000,4102401600000000,NULL,NULL,NULL,0);
INSERT INTO "schedules" VALUES(3,'1b94e348c1',513,1767225600000000,1767225630000000,4081320000000000,NULL,NULL,NULL,0);
INSERT INTO "schedules" VALUES(4,'1547a12ebe',182,1767225600000000,1767225920000000,NULL,NULL,NULL,NULL,0);
INSERT INTO "schedules" VALUES(5,'a0493c3f62',416,1767225600000000,1767225600000001,1767229510250000,1767225910250000,3600000000,NULL,0);
INSERT INTO "schedules" VALUES(6,'a6942dbe22',76,1767225600000000,1767225630000000,4920825600000000,NULL,NULL,NULL,0);
INSERT INTO "schedules" VALUES(7,'408dbd4fcc',898,1767225600000000,1767225630000000,1767229200000000,NULL,NULL,NULL,0);
INSERT INTO "schedules" VALUES(8,'408dbd4fcc',762,1767225600000000,1767225630000000,1767229200000000,NULL,NULL,NULL,0);
INSERT INTO "schedules" VALUES(23,'7feafa3d14',736,1767225600000000,1767225630000000,4070908800000000,NULL,NULL,NULL,0);
INSERT INTO "schedules" VALUES(28,'a557bc224e',968,1767226195000000,1767226820000000,NULL,NULL,NULL,NULL,0);
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
INSERT INTO "skips" VALUES(1,4,'1547a12ebe',1767225660000000,1767225840000000,4,'paused',1767225890000000);
CREATE TABLE submit_keys (  -- the same key is the same run
    job_id     INTEGER NOT NULL,
    key        TEXT NOT NULL,
    run_id     INTEGER NOT NULL,
    args       TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "submit_keys" VALUES(12,'site-1',9,'{"site":"one"}',1767225620750000);
INSERT INTO "submit_keys" VALUES(14,'2026-01-01',4,NULL,1767225620000000);
CREATE TABLE term_history (  -- every term that ever was
    shard       INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    incarnation TEXT NOT NULL,
    began_at    INTEGER NOT NULL,
    PRIMARY KEY (shard, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "term_history" VALUES(0,1,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1767226790000000);
INSERT INTO "term_history" VALUES(0,2,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1767227394000000);
INSERT INTO "term_history" VALUES(1,1,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1767226790000000);
INSERT INTO "term_history" VALUES(1,2,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1767227394000000);
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
INSERT INTO "terms" VALUES(0,2,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1767227404000000,10000000,2,'2025b','');
INSERT INTO "terms" VALUES(1,2,'old-1-92f3d2bca7329e3a4a2090f4c4422278',1767227404000000,10000000,2,'2025b','');
CREATE TABLE turns (  -- in queues that are shared fairly: where the last turn of each share ends
    queue    TEXT NOT NULL,
    share    TEXT NOT NULL,
    priority INTEGER NOT NULL,
    ends     INTEGER NOT NULL,
    PRIMARY KEY (queue, share, priority)
) STRICT, WITHOUT ROWID;
INSERT INTO "turns" VALUES('bulk','free',1,12582912);
INSERT INTO "turns" VALUES('bulk','gold',1,4194303);
CREATE INDEX jobs_name ON jobs (namespace, name);
CREATE INDEX jobs_named ON jobs (name);
CREATE INDEX jobs_owner ON jobs (owner, namespace, name);
CREATE UNIQUE INDEX jobs_living ON jobs (namespace, name) WHERE state <> 'deleted';
CREATE INDEX jobs_paused ON jobs (paused_until) WHERE state = 'paused';
CREATE INDEX schedules_due ON schedules (bucket / 64, next_at, job_id, schedule_id, bucket) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_zoned ON schedules (job_id, schedule_id, bucket) WHERE zoned = 1;
CREATE INDEX dependencies_child ON dependencies (child_id, run_id);
CREATE UNIQUE INDEX runs_key ON runs (job_id, slot_at, trigger, target);
CREATE INDEX runs_ready ON runs (route, priority, ready_at) WHERE state <> 'running' AND rank IS NULL;
CREATE INDEX runs_ranked ON runs (route, rank) WHERE rank IS NOT NULL;
CREATE INDEX runs_expiring ON runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX runs_due ON runs (due_at);
CREATE INDEX runs_held ON runs (incarnation, delayed) WHERE incarnation IS NOT NULL;
CREATE INDEX runs_blocked ON runs (blocked_on, due_at, id, blocked_capacity) WHERE blocked_on IS NOT NULL;
CREATE INDEX gate_holders_run ON gate_holders (run_id);
CREATE INDEX rates_tat ON rates (tat);
CREATE INDEX submit_keys_run ON submit_keys (run_id);
CREATE INDEX history_ended ON history (ended_at);
CREATE INDEX history_job_ended ON history (job_id, ended_at);
CREATE INDEX history_unsuccessful ON history (ended_at) WHERE state <> 'succeeded';
CREATE INDEX history_dead ON history (ended_at) WHERE state = 'dead' AND settled IS NULL;
CREATE INDEX history_submitted ON history (slot_at, job_id, trigger) WHERE trigger NOT GLOB 'schedule:*';
CREATE INDEX attempts_node ON attempts (node, ended_at, run_id, attempt);
CREATE INDEX skips_last ON skips (job_id, schedule_id, last);
CREATE INDEX nodes_id ON nodes (id);
CREATE UNIQUE INDEX entries_key ON entries (kind, key) WHERE key IS NOT NULL;
COMMIT;
