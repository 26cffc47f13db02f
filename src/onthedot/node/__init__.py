"""One node: the engine, and the services that it runs as ticks on one loop.

engine        wires the services of a node together
heartbeat     registers the node and renews its lease;  fencing gives up when that fails
leadership    elects who plans;  planner, replanner, resumer and assigner run on the leader
worker        reserves runs, arms them, starts them on time and hands their outcomes to the finisher
reaper        recovers the runs of dead nodes;  expiry, pruner and gate_recount tidy up
"""
