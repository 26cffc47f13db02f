"""Measures onthedot against its performance budgets: `make bench`, or `python -m bench --help`.

    results       one line of the table: the measured value, its floor and aim, and the verdict
    rounds        the size and number of measurements; alternating rounds, medians, percentiles
    nodes         a scheduler on a store with a handler that counts; checks of the result
    stores        new stores in memory, in files, or on a server (`server`: PostgreSQL, `valkey`: Redis)
    bare          bare loops and timers to compare with; also bare_postgres and bare_redis
    drain gated lateness submit submitting history schedules memory imports herd sizing failover commands api
                  one bench each; drain_postgres, history_redis and so on are the parts for one store
    drain_crews   drains by several worker processes on a server
    crew          starts several processes that drain one database; crew_node and crew_protocol are their side
    floors        the floors of ratios, which are in floors.json
    peers         compares with other libraries: `make bench-peers`
    compare       compares two revisions in turns: `make bench-compare`; workload is the work of each side
    revisions     gives modules of older revisions their present names
    cpu           CPU time of other processes
    idle_node     the process that `schedules` measures

Each line compares ours with a bare implementation of the same work. Both take turns in one run on one machine, and
only their ratio or difference counts. All counts and times are limited. A lost or duplicated execution fails a bench
at any size, a missed floor only at size 1.
"""
