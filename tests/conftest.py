"""The Hypothesis profile is chosen before any test module is imported; garbage is collected less often."""

import gc
from pathlib import Path

import pytest
from tests.examples import load_profile

load_profile()
gc.disable()  # until all tests are collected: nothing of them is garbage
MARKED_FOLDERS = ("real", "browser", "wheel", "operation", "stores")
"""Folders whose tests all have the mark of this name."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the tests of a folder whose mark is excluded, as `make test` does."""
    name = collection_path.name
    is_folder = collection_path.parent == Path(__file__).parent and name in MARKED_FOLDERS
    return True if is_folder and f"not {name}" in config.option.markexpr.split(" and ") else None


def pytest_collection_finish() -> None:
    """Keep collected tests and imported SDKs out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)
    gc.enable()
