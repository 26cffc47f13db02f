"""The oracle: a slow and simple model of the whole store protocol, to judge stores by.

    world   what a store holds: jobs, schedules, runs, nodes, terms, queues
    runs    submit, reserve, release, checkpoints, notes, dead letters
    ends    how a run ends, and what follows from it: the next slot, the runs after it
    lines   the holders of a gate, the waiting runs, the next run
    gates   arm: overlap, limits, rates, overdue slots
    plan    windows, exceptions, the ledger
    edits   put_job
    control pause, resume, delete, cancel, moved slots
    nodes   leases and terms
    queues  pauses, fair shares, places
    upkeep  orphans, reaping, expiry, retention
    show    what a store shows of them
    promises  what must hold of gates in any case

Each rule is a plain comparison over all rows: no index, no cache, and no code shared with a store or with `rules/`. A
call is a function of the world. It returns what the store must answer, or raises what the store must raise.

Where the protocol leaves a choice (ids, fences, one of two equally old runs), the function gets the store's answer,
checks that it is allowed, and takes it over. Instants are microseconds.
"""
