"""Nobody is sent into the user's own network: listed URLs, probes and connections."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from http import HTTPStatus
from pathlib import Path

import pytest
from tests.node.server import HOST, Node, running
from tests.node.sessions import LOCAL, QUICK, WALLET, told
from tests.tables import every_row
from websockets.asyncio.server import serve

from toolbridge.core.errors import Unreachable
from toolbridge.node.funding.jobs import Host, Job, PrepaidJob
from toolbridge.node.hosts.access import HostAccess
from toolbridge.node.hosts.probing import HostProber, HostSilent
from toolbridge.node.protocol import encryption
from toolbridge.node.session.connection import HostConnection
from toolbridge.node.session.session import NodeSession, SessionSettings
from toolbridge.node.settings import read_settings

INSIDE = [
    "https://127.0.0.1", "https://127.1:8080", "https://2130706433", "https://0x7f000001/node",
    "https://0177.0.0.1", "wss://[::1]/v1/ws", "https://[::ffff:127.0.0.1]", "https://[::]",
    "https://169.254.169.254/latest/meta-data", "https://100.64.0.1", "https://0.0.0.0",
    "https://[64:ff9b::7f00:1]", "https://[2002:7f00:1::]", "https://[fe80::1]", "https://[fd00::1]",
    "https://localhost", "https://localhost.", "https://db.internal", "https://printer.local",
    "https://nas", "https://3232235777",
]  # fmt: skip
STRANGE = [
    "", "host.example", "javascript:alert(1)", "ftp://host.example", "https://", "http://[::1",
    "https://user@host.example", "https://host.example@127.0.0.1", "https://host.example:99999",
    "https://host.example\\@127.0.0.1", "https://\uff11\uff12\uff17.0.0.1", "https://%31%32%37.0.0.1",
    "https://host.example/\x1b[31m", "https://host.example /x", "https://ex\u00e4mple.com",
    "https://host.example\n.internal", "https://[fe80::1%25eth0]",
]  # fmt: skip


class TestUrls:
    @every_row("url", INSIDE)
    def test_a_url_of_the_users_own_network_needs_a_setting(self, url):
        assert "private_hosts" in HostAccess().objection(url)
        assert HostAccess(private=True).objection(url) == ""

    @every_row("url", STRANGE)
    def test_a_url_that_clients_read_in_different_ways_is_refused(self, url):
        assert "its URL" in HostAccess(private=True, plain=True).objection(url)

    @pytest.mark.parametrize("scheme", ["http", "ws"])
    def test_a_public_host_without_tls_needs_a_setting(self, scheme):
        assert "plain_hosts" in HostAccess().objection(f"{scheme}://host.example:8080")
        assert HostAccess(plain=True).objection(f"{scheme}://host.example:8080") == ""

    @pytest.mark.parametrize("url", ["https://host.example", "wss://8.8.8.8:443/v1/ws"])
    def test_a_public_host_with_tls_needs_none(self, url):
        assert HostAccess().objection(url) == ""


class TestSettings:
    def access(self, **more):
        return read_settings({"model": "a:b", **more}).access

    @every_row(
        ("url", "words"),
        [
            ("http://127.0.0.1:8080", ""), ("http://192.168.1.5", ""), ("http://localhost:1", ""),
            ("http://nas.lan", "private_hosts"), ("http://8.8.8.8", "plain_hosts"),
            ("https://8.8.8.8", ""),
        ],
    )  # fmt: skip
    def test_the_users_own_host_may_be_written_as_a_private_address(self, url, words):
        key = encryption.public_key(HOST).hex()
        found = self.access(host_url=url, host_key=key).objection(url)
        assert words in found if words else found == ""

    def test_it_does_not_open_other_addresses(self):
        key = encryption.public_key(HOST).hex()
        access = self.access(host_url="http://127.0.0.1:8080", host_key=key)
        assert access.objection("http://10.0.0.1")

    def test_a_server_of_the_chain_on_this_machine_opens_nothing(self):
        assert self.access(rpc_url="http://127.0.0.1:8545").objection("http://127.0.0.1:9")


@pytest.fixture
async def service():
    """A service of the user's own network, which records who connects."""
    accepted = []

    async def accept(_, writer):
        accepted.append(writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], accepted
    server.close()


SPELLINGS = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]"]


def job(url: str) -> Job:
    return Job("1", Host(url, encryption.public_key(HOST)), "m")


class TestConnecting:
    @pytest.mark.parametrize("scheme", ["http", "ws", "https"])
    @pytest.mark.parametrize("host", SPELLINGS)
    async def test_no_spelling_of_an_own_address_is_contacted(self, service, scheme, host):
        port, accepted = service
        url = f"{scheme}://{host}:{port}"
        access = HostAccess(plain=True)
        with pytest.raises(Unreachable, match="private"):
            await HostConnection.open(job(url), WALLET, QUICK, access)
        async with HostProber(access) as prober:
            with pytest.raises(HostSilent, match="private"):
                await prober.latency(url)
        await asyncio.sleep(0)
        assert accepted == []

    async def test_a_name_that_leads_inside_is_not_contacted(self, service, monkeypatch):
        port, accepted = service
        _point(monkeypatch, "rebind.example", "127.0.0.1")
        access, url = HostAccess(plain=True), f"http://rebind.example:{port}"
        with pytest.raises(Unreachable, match="is at a private address"):
            await HostConnection.open(job(url), WALLET, QUICK, access)
        async with HostProber(access) as prober:
            with pytest.raises(HostSilent, match="private address"):
                await prober.latency(url)
        assert accepted == []

    async def test_a_name_with_an_allowed_address_is_contacted_by_its_name(self, monkeypatch):
        _point(monkeypatch, "node.example", "127.0.0.1")
        async with running() as node:
            url = node.url.replace("127.0.0.1", "node.example")
            access = HostAccess(private=True, plain=True)
            connection = await HostConnection.open(job(url), WALLET, QUICK, access)
            assert connection.alive
            (socket_,) = node.sockets
            assert socket_.request.headers["host"].startswith("node.example:")
            await connection.close()

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    async def test_a_redirect_is_not_followed(self, service, status):
        port, accepted = service

        def redirect(connection, _):
            answer = connection.respond(HTTPStatus(status), "")
            answer.headers["Location"] = f"ws://127.0.0.1:{port}/v1/ws"
            return answer

        async with serve(lambda _: None, "127.0.0.1", 0, process_request=redirect) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(Unreachable, match=rf"{status}, a redirect, which is not followed"):
                await HostConnection.open(job(url), WALLET, QUICK, LOCAL)
            async with HostProber(LOCAL) as prober:
                await prober.latency(url)  # any status is an answer
        assert accepted == []

    async def test_the_certificate_must_be_that_of_the_name(self, monkeypatch, tmp_path):
        for name in ("node.example", "other.example"):
            _point(monkeypatch, name, "127.0.0.1")
        server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_side.load_cert_chain(*_certificate(tmp_path, "node.example"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        async with serve(Node().serve, "127.0.0.1", 0, ssl=server_side) as server:
            port = server.sockets[0].getsockname()[1]
            access = HostAccess(private=True)
            connection = await HostConnection.open(
                job(f"https://node.example:{port}"), WALLET, QUICK, access
            )
            await connection.handshake("1-a")
            await connection.close()
            with pytest.raises(Unreachable, match=r"not valid for 'other\.example'"):
                await HostConnection.open(
                    job(f"https://other.example:{port}"), WALLET, QUICK, access
                )

    async def test_a_session_reports_a_host_that_it_may_not_contact(self):
        node = Node()
        node.url = "http://127.0.0.1:1"
        session = NodeSession(PrepaidJob(job(node.url)), WALLET, SessionSettings(QUICK))
        with pytest.raises(Unreachable, match="private_hosts"):
            await told(session)
        await session.close()


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Return a new certificate for `name`, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed; it makes the certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:{name}"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def _point(monkeypatch, name: str, address: str) -> None:
    """Make the C library's lookup of `name` return `address`."""
    known = socket.getaddrinfo

    def lookup(host, port, *args, **more):
        return known(address if host == name else host, port, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
