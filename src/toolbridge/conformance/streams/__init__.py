"""Scores structured streams: plays models that write well and badly, and judges what clients read.

Cases are data, in `conformance/stream/`. Each is played several times, with the model's text cut in
another way each time, and must give the same events.
"""
