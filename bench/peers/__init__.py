"""Compares onthedot with other systems in one run: `make bench-peers`, or `python -m bench.peers --help`.

    catalog        the systems, their stores and how much work they get
    figures        what is measured, and how
    driver         the order of measurements, their servers and bounds
    interruption   what Ctrl-C and SIGTERM do
    environments   where the packages of peers are
    child, node    the two sides of the protocol between the driver and one process of a system
    nodes          one program per system, with its best practical settings
    report, plots  medians and ratios: a table, JSON, SVG

Every system runs in processes of its own, and peers in environments of their own.
"""
