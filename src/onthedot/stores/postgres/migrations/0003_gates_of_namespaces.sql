-- Named limits and rates belong to a namespace: `rules/gates.py`. Keys of the default namespace stay as they are.
-- Those who hold a gate, wait at one or were granted an instant go with it.

-- All gates first, in order, as everybody locks them: nobody takes, leaves or passes one on meanwhile.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || stripe, 0))
FROM (SELECT 'gate:' || lpad(number::text, 4, '0') AS stripe FROM generate_series(0, 1023) number ORDER BY 1) gates;

SELECT r.id FROM runs r JOIN jobs j ON j.id = r.job_id
WHERE j.namespace <> 'default' AND (r.blocked_on LIKE 'limit:name:%' OR r.granted_by LIKE 'rate:name:%')
ORDER BY r.id FOR UPDATE OF r;

UPDATE gate_holders
SET key = 'limit:in:' || j.namespace || substr(key, 6)
FROM runs r JOIN jobs j ON j.id = r.job_id
WHERE r.id = run_id AND j.namespace <> 'default' AND key LIKE 'limit:name:%';

UPDATE runs
SET blocked_on = 'limit:in:' || j.namespace || substr(blocked_on, 6)
FROM jobs j WHERE j.id = job_id AND j.namespace <> 'default' AND blocked_on LIKE 'limit:name:%';

UPDATE runs
SET granted_by = 'rate:in:' || j.namespace || substr(granted_by, 5),
    reason = replace(reason, granted_by, 'rate:in:' || j.namespace || substr(granted_by, 5))
FROM jobs j WHERE j.id = job_id AND j.namespace <> 'default' AND granted_by LIKE 'rate:name:%';

-- What a rate has handed out counts in each namespace that has a rate of that name.
INSERT INTO rates (key, tat, part, parts)
SELECT 'rate:in:' || named.namespace || substr(rates.key, 5), rates.tat, rates.part, rates.parts
FROM (
    SELECT DISTINCT j.namespace, 'rate:name:' || (
        CASE WHEN strpos(d.definition, '"rate":{') > 0
        THEN replace(d.definition, '\u0000', '\u0020')::json #>> '{rate,name}' END  -- text holds no zero character
    ) || ':' AS start
    FROM jobs j JOIN job_revisions d ON d.job_id = j.id AND d.revision = j.revision
    WHERE j.namespace <> 'default' AND j.state <> 'deleted'
) named JOIN rates ON starts_with(rates.key, named.start)
WHERE named.start <> 'rate:name::'
ON CONFLICT DO NOTHING;
