"""Scores a gateway: plays upstreams that misbehave, and judges what a client gets to see.

Nothing here uses the codecs. Requests are built, streams are read and upstreams are played by code
of their own, so that a fault of a codec cannot hide itself. Cases are data, in `conformance/`.
"""
