"""Ling 3: as GLM 4.7."""

from dataclasses import replace

from toolbridge.dialects import glm47

DIALECT = replace(glm47.DIALECT, name="ling3")
