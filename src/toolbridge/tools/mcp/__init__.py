"""A client of MCP servers (Model Context Protocol), over stdio and over streamable HTTP.

`servers.McpServers` has the configured servers; each is connected when it is used for the first time.
`session` does the handshake, lists and calls; `stdio` and `streamable_http` carry the messages.
"""
