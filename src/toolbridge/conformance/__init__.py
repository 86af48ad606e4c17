"""Scores a gateway: scripted upstreams misbehave, and strict clients check the gateway's answers.

Nothing here uses the codecs: requests, stream readers and upstreams have separate code, so that a
fault of a codec cannot hide itself. Cases are data, in `conformance/`. Translations and structured
streams (`streams/`) share one runner and one report.
"""
