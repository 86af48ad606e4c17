"""The words that every room speaks: messages, events, usage, errors, ids and the stage."""
