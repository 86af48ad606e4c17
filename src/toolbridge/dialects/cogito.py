"""Cogito: as DeepSeek V3."""

from dataclasses import replace

from toolbridge.dialects import deepseek_v3

DIALECT = replace(deepseek_v3.DIALECT, name="cogito")
