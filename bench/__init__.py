"""The budgets, measured: `make bench`, or `python -m bench --help`.

    results     one line of the table: what was measured, its floor and aim, and the verdict
    rounds      how often and how large; alternating rounds, medians, percentiles
    nodes       a scheduler on a store, with a handler that keeps count; what must be true afterwards
    bare        the loops and timers that ours is held against
    drain postgres gated lateness submit history schedules imports herd      one bench each
    idle_node   the process that `schedules` looks at

Ours and bare take turns in one run on one machine, and only their ratio or difference is judged. Everything is
bounded in count and time. A lost or doubled execution fails a bench at any size, a floor only at size 1.
"""
