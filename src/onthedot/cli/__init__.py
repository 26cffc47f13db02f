"""The command line: `onthedot up`, `next`, `jobs`, `runs`. One file per command, loaded when it is called.

Exit codes: 0 done; 1 something broke (a store that cannot be reached, an attempt that had to be given up); 2 what was
asked for cannot be done as it is (bad input, an unusable file); 130 a second Ctrl-C cut attempts short.
"""
