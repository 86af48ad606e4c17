"""One answer of a model as a stream of events, for blocking and for async callers.

`options` turns a prompt and its options into a request, `answers` sends it, and `Stream` and
`AsyncStream` deliver the events. The other parts of the SDK use this package.
"""
