"""Wire formats that several APIs share: SSE, NDJSON, JSON read while it arrives, JSON Schema.

The readers are stages: `feed` takes bytes as the network delivers them and returns whole events,
lines or elements. `shapes` decodes their JSON into structs. Nothing here depends on an API.
"""
