"""The command line. One file per command, loaded when it is called.

Commands that only look (`jobs`, `runs`, `show`, `nodes`, `queues`) open the store for reading; those that change
something write once, without a node, by the operations that programs use: running nodes notice by themselves.

Exit codes: 0 done, or stopped as asked; 1 something broke (a store that cannot be reached, an attempt that had to be
given up); 2 what was asked for cannot be done as it is (bad input, an unusable file); 130 a second Ctrl-C cut attempts
short.
"""
