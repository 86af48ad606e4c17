"""Cohere Command 4: as Command A."""

from dataclasses import replace

from toolbridge.dialects import cohere_cmd3

DIALECT = replace(cohere_cmd3.DIALECT, name="cohere_cmd4")
