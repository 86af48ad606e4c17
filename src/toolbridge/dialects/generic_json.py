"""JSON without any mark: as `bare_json`."""

from dataclasses import replace

from toolbridge.dialects import bare_json

DIALECT = replace(bare_json.DIALECT, name="generic_json")
