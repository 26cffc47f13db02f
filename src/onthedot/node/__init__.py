"""One node: the engine, and the services that it runs as ticks on one loop.

engine        wires the services of a node;  runner_set makes its runners;  engine_thread gives it a thread of its own
heartbeat     registers the node and renews its lease;  self_fencing stops attempts when that fails
leadership    elects who plans;  planner, assigner, pruner, late_nodes and others work on the leader only
reserver      looks for work;  armer arms it in time;  seats starts and ends attempts;  finisher writes their verdicts
reaper        recovers the runs of dead nodes;  sweeps make small repairs, on every node, too
access_upkeep and output_upkeep seal the audit, and remove what is over
"""
