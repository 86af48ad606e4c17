"""Runs of structured streams: the loop, its events and subscribers, repeats and artifacts.

`service` accepts a request and starts a `StreamRun`; `log` numbers its events for subscribers;
`artifacts` writes the files that `toolbridge runs` and `toolbridge show` read.
"""
