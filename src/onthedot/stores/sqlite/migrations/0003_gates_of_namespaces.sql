-- Named limits and rates belong to a namespace: `rules/gates.py`. Keys of the default namespace stay as they are.
-- Those who hold a gate, wait at one or were granted an instant go with it.

UPDATE gate_holders
SET key = 'limit:in:' || job.namespace || substr(key, 6)
FROM (SELECT r.id, j.namespace FROM runs r JOIN jobs j ON j.id = r.job_id WHERE j.namespace <> 'default') job
WHERE job.id = run_id AND key GLOB 'limit:name:*';

UPDATE runs
SET blocked_on = 'limit:in:' || job.namespace || substr(blocked_on, 6)
FROM (SELECT id, namespace FROM jobs WHERE namespace <> 'default') job
WHERE job.id = job_id AND blocked_on GLOB 'limit:name:*';

UPDATE runs
SET granted_by = 'rate:in:' || job.namespace || substr(granted_by, 5),
    reason = replace(reason, granted_by, 'rate:in:' || job.namespace || substr(granted_by, 5))
FROM (SELECT id, namespace FROM jobs WHERE namespace <> 'default') job
WHERE job.id = job_id AND granted_by GLOB 'rate:name:*';

-- What a rate has handed out counts in each namespace that has a rate of that name.
INSERT INTO rates (key, tat, part, parts)
SELECT 'rate:in:' || named.namespace || substr(rates.key, 5), rates.tat, rates.part, rates.parts
FROM (
    SELECT DISTINCT j.namespace, 'rate:name:' || (
        CASE WHEN instr(d.definition, '"rate":{') THEN json_extract(d.definition, '$.rate.name') END
    ) || ':' AS start
    FROM jobs j JOIN job_revisions d ON d.job_id = j.id AND d.revision = j.revision
    WHERE j.namespace <> 'default' AND j.state <> 'deleted'
) named JOIN rates ON substr(rates.key, 1, length(named.start)) = named.start
WHERE named.start <> 'rate:name::'
ON CONFLICT DO NOTHING;
