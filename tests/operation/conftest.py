"""Commands that are started as processes have a home of their own, as those of `tests/cli`."""

from tests.cli.conftest import env

__all__ = ["env"]
