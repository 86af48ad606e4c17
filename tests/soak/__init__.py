"""A long run against a gateway of its own: mixed traffic, random faults, and a count of what stays.

`make soak`, or `python -m tests.soak [requests] [seed]`. Everything stays on loopback; the number of
requests and the time are bounded.
"""
