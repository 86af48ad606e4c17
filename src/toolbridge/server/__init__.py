"""The HTTP gateway.

`app.App` has the state of one gateway, `dispatch.Dispatcher` finds the route of a request,
`gateway.Gateway` answers model requests of all APIs, and `http_protocol` reads and writes HTTP.
"""
