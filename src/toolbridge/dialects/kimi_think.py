"""Thoughts of Kimi: as `think_tags`."""

from dataclasses import replace

from toolbridge.dialects import think_tags

DIALECT = replace(think_tags.DIALECT, name="kimi_think")
