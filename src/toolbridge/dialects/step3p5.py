"""Step 3.5: as Qwen3-Coder."""

from dataclasses import replace

from toolbridge.dialects import qwen3_xml

DIALECT = replace(qwen3_xml.DIALECT, name="step3p5")
