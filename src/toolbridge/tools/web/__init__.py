"""Web search and web fetch, which the gateway runs for models that have neither.

`search` has the search engines behind one interface; `fetch` reads a page as text. Both are loaded
when a request needs them for the first time.
"""
