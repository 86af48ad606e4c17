"""Servers that all tests of this folder share; a test that harms one starts its own."""

import pytest
from tests.store_servers import (
    PostgresProcess,
    RedisProcess,
    postgres_programs,
    redis_program,
)


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/stores/" in item.path.as_posix():
            item.add_marker(pytest.mark.stores)


def _redis():
    pytest.importorskip(
        "redis", reason="the package redis is not installed: `pip install '.[redis]'`"
    )
    if redis_program() is None:
        pytest.skip("neither valkey-server nor redis-server is installed")
    return RedisProcess()


def _postgres():
    pytest.importorskip("psycopg", reason="psycopg is not installed: `pip install '.[postgres]'`")
    if postgres_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    return PostgresProcess()


@pytest.fixture(scope="session")
def redis_url():
    server = _redis()
    yield server.url
    server.close()


@pytest.fixture
def redis_process():
    server = _redis()
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_url():
    server = _postgres()
    yield server.url
    server.close()


@pytest.fixture
def postgres_process():
    server = _postgres()
    yield server
    server.close()
