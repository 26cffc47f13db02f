"""The command line: one module for each noun, imported when one of its commands is called (`main.py`).

Commands that only read open the store for reading. Commands that change something write once, without a node, with the
operations that programs use (`operations/`). Running nodes notice it. What only the process of a node uses (`onthedot
up`, `worker`, `server`) is in `node_process/`.

Imports stand at the top of a module, except for what is slow and not always needed: the client (only for a server), the
verbs of a store, a user's program with the whole scheduler, the HTTP server, rich.

Exit codes: 0 done, or stopped as asked; 1 something broke (a store is down, an attempt did not stop); 2 the input is
wrong, or cannot be done (an unusable file); 130 a second Ctrl-C stopped attempts.
"""
