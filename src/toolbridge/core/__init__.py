"""The types that every package uses: messages, events, usage, errors, ids and stages."""
