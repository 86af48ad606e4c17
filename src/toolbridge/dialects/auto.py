"""When nobody knows the dialect: what is seen decides."""

from toolbridge.dialects.engines.prose import Prose

AUTO = Prose({})
