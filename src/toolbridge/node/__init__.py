"""Models on encrypted nodes: other people's machines, reached over an encrypted WebSocket.

`protocol` encodes requests and decodes answers (pure), `chain` reads contracts and signs
transactions, `hosts` finds the machines that serve a model, `funding` pays them within limits, and
`session` talks to them. `provider` puts these together for `routing` and `toolbridge node`.
"""
