"""`Client` and `AsyncClient`: ask any model, get text, typed values, embeddings, or run tools.

The clients create the streams of `sdk.streams`. `tool_loop` runs Python functions as tools until the
model has answered; `typed_answer` turns an answer into a value of a Python type.
"""
