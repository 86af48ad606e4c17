"""`rediss://`: a server with a certificate of an intermediate, and one that cannot be trusted."""

import pytest
from tests.certificates import Authority
from tests.store_servers import RedisProcess, redis_program

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.server.app import App
from toolbridge.store import engines
from toolbridge.store.redis_server import RedisServer
from toolbridge.store.redis_store import RedisStore


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def server(authority):
    if redis_program() is None:
        pytest.skip("neither valkey-server nor redis-server is installed")
    chain, key, _ = authority.issue()
    made = RedisProcess(tls=(chain, key))
    yield made
    made.close()


async def test_the_chain_of_the_server_is_checked(server, authority):
    store = RedisStore(RedisServer(f"{server.url}?ssl_ca_certs={authority.file}"))
    assert await store.check() == ""
    await store.put("kind", "a", b'"value"', seconds=60.0)
    assert await store.get("kind", "a") == b'"value"'
    assert await store.connection(), "the connection by which others see the end of this process"
    await store.close()


async def test_a_server_that_is_not_trusted_is_refused_at_the_start(server, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "_PAUSES", (0.0,))
    app = App(Config(store=server.url), {"XDG_STATE_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"`store`: .*certificate verify failed") as caught:
        await app.start()
    assert server.password not in str(caught.value)
    await app.stop()


async def test_the_trusted_roots_of_the_system_are_used(server, authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    store = RedisStore(RedisServer(server.url))
    assert await store.check() == ""
    await store.close()
