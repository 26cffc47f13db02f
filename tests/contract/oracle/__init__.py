"""The oracle: a slow and simple model of the whole store protocol, to judge stores by.

    world   what a store holds: jobs, schedules, runs, nodes, terms, queues
    runs    submit, reserve, release, checkpoints, notes, dead letters
    ends    how a run ends, and what follows from it: the next slot, the runs after it
    lines   who holds a gate, who waits there, who is next
    gates   arm: overlap, limits, rates, overdue slots
    plan    windows, exceptions, the ledger
    edits   put_job
    control pause, resume, delete, cancel, moved slots
    nodes   leases and terms
    queues  pauses, fair shares, places
    upkeep  orphans, reaping, expiry, retention
    show    what a store shows of all that
    promises  what has to hold of gates, whoever is right

Every rule is a plain comparison over all rows: no index, no cache, nothing shared with a store or with `rules/`. A
call is a function of the world. It returns what the store has to answer, or raises what the store has to raise.

Where the protocol leaves a choice (ids, fences, which of two runs that are equally old), the function is given the
store's answer, checks that it is allowed, and takes it over. Instants are microseconds.
"""
