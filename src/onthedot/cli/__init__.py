"""The command line: one module for each noun, imported when one of its commands is called (`main.py`).

Commands that only read open the store for reading. Commands that change something write once, without a node, with the
operations that programs use (`operations/`). Running nodes notice it. `node_process/` is what only the process of a
node uses (`onthedot up`, `worker`, `server`).

Imports are at the top of a module, except slow ones that not every call needs: the client (only for a server), the
operations of a store, readers of job files, the HTTP server, rich. `onthedot.Scheduler` and `onthedot.Client` load when
they are first used.

Exit codes: 0 done, or stopped as asked; 1 something broke (a store is down, an attempt did not stop); 2 the input is
wrong, or cannot be done (an unusable file); 130 a second Ctrl-C stopped attempts.
"""
