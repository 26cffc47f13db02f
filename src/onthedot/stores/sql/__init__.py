"""The moves of the store in SQL: each is written once, for SQLite and PostgreSQL.

    port      the transaction that a move works on, and statements in two dialects
    store     the store protocol: a line for each move
    records   job definitions, parsed once

    jobs      create and edit jobs                plan         due schedules, windows of slots, skips
    control   pause, resume, delete, cancel, and slots that are moved
    submit    new runs, and where they wait       reserve      take, list and release runs
    arm       start runs, through their gates     gates        who holds them, who waits, who is next
    finish    end runs                            after        runs that follow others
    reap      take runs from dead nodes           prune        prune history, expire runs
    nodes     nodes and their leases              terms        leader election: terms of shards, layouts
    queues    pauses, fair shares, placement      fragments    pieces of SQL that several moves use
    checkpoints  checkpoints and notes
    history   runs, dead letters, why runs wait   find         pages of jobs, runs, attempts, skips
    documents cold records, and lists that only grow

A move is an `async def` over a `Tx` (`port.py`). It holds its SQL, its locks and its rule; nothing else writes.
"""
