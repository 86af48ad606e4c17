"""Tools that a structured stream can run: the registry, and the built-in tools.

Built in are `time.now`, `fs.read`, `sqlite.query`, tools at a URL and Python functions.
"""
