"""The budgets, measured: `make bench`, or `python -m bench --help`.

    results     one line of the table: what was measured, its floor and aim, and the verdict
    rounds      how often and how large; alternating rounds, medians, percentiles
    nodes       a scheduler on a store, with a handler that keeps count; what must be true afterwards
    places      where stores are: nowhere, in files, on a PostgreSQL of our own (`server`)
    bare        the loops and timers that ours is held against; bare_postgres
    drain gated lateness submit history schedules imports herd sizing failover      one bench each
    drain_crews drains on a server; drain_postgres, drain_redis and the like: what is made differently there
    crew        several processes that drain one database; crew_node and attending are their side
    peers       beside others: `make bench-peers`; pgqueuer_node is the other
    compare     two revisions in turns: `make bench-compare`; workload is what each side does
    revisions   present names for the modules of older revisions
    cpu         CPU time of other processes
    idle_node   the process that `schedules` looks at

Ours and bare take turns in one run on one machine, and only their ratio or difference is judged. Everything is
bounded in count and time. A lost or doubled execution fails a bench at any size, a floor only at size 1.
"""
