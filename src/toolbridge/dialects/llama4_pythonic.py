"""Llama 4: Python calls in a list, with or without marks."""

from dataclasses import replace

from toolbridge.dialects import pythonic

DIALECT = replace(pythonic.DIALECT, name="llama4_pythonic")
