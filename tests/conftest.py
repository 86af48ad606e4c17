"""The Hypothesis profile is chosen before any test module is imported."""

import gc

from tests.examples import load_profile

load_profile()


def pytest_collection_finish() -> None:
    """Keep collected tests and imported SDKs out of every later garbage collection."""
    gc.collect()
    gc.freeze()
