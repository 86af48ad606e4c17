"""Three gateways behind nginx on one Redis and one PostgreSQL, one of them killed every few seconds.

`make test-cluster`, or `python -m tests.cluster [requests]`. Everything stays on loopback; the number
of requests and the time are bounded.
"""
