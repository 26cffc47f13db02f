"""Simulation: plays a program's schedules on a virtual clock, with the real engine and without user code.

scenario       what is simulated: jobs, a span of time, outages;  play runs it;  results counts, and warns
virtual_loop   virtual time;  virtual_node is the engine on it, which the test harness uses, too
"""
