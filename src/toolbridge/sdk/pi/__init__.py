"""`toolbridge.stream` and `toolbridge.complete`: the API of the pi-ai library, for Python.

`context` reads a pi context into a request, `events` writes events in pi's form, and `stream` is the
public entry.
"""
