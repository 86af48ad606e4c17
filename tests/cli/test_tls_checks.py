"""`doctor` checks the files of `[tls]` as `serve` does, and the certificates of providers."""

import ssl
from concurrent.futures import ThreadPoolExecutor
from socket import create_server

import pytest
from tests.certificates import Authority
from tests.cli.test_commands import run


@pytest.fixture
def env(tmp_path):
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OLLAMA_HOST": "http://127.0.0.1:1"}


@pytest.fixture
def files(tmp_path):
    authority = Authority(tmp_path)
    authority.issue("a")
    authority.issue("b")
    (tmp_path / "junk").write_text("no PEM")
    return tmp_path


@pytest.mark.parametrize(
    ("table", "status", "words"),
    [
        ('cert = "a.pem"\nkey = "a.key"', 0, "ok    TLS: a.pem and its key can be used"),
        ('cert = "none.pem"\nkey = "a.key"', 1, "tls.cert: none.pem cannot be read"),
        ('cert = "a.pem"\nkey = "none.key"', 1, "tls.key: none.key cannot be read"),
        ('cert = "a.pem"', 1, "a.pem has no private key in PEM format"),
        ('cert = "a.pem"\nkey = "b.key"', 1, "the key in b.key does not belong to the first"),
        ('cert = "junk"\nkey = "a.key"', 1, "junk has no certificate in PEM format"),
        ('cert = "a.pem"\nkey = "a.key"\nport = 3456', 1, "3456 is the port without TLS"),
        ('cert = "a.pem"\nkey = "a.key"\nport = 3456\nhost = "127.0.0.2"', 0, "ok    TLS"),
        ('key = "a.key"', 1, "tls.key: there is no `tls.cert`"),
    ],
)
def test_the_files_of_tls_are_checked(env, files, table, status, words):
    (files / "c.toml").write_text(
        f'host = "127.0.0.1"\nport = 3456\n[map]\ndefault = "demo/demo"\n[tls]\n{table}\n'
    )
    done = run(env, "doctor", "--config", "c.toml", cwd=files)
    assert words in done.stdout.decode()
    assert done.returncode == status, done.stdout.decode()


def test_a_file_of_authorities_that_cannot_be_read_is_named(env, files):
    (files / "c.toml").write_text('[map]\ndefault = "demo/demo"\n')
    env["SSL_CERT_FILE"] = str(files / "junk")
    done = run(env, "doctor", "--config", "c.toml", cwd=files)
    shown = f"BAD   `SSL_CERT_FILE` names {files}/junk, which has no certificates in PEM format"
    assert shown in done.stdout.decode()
    assert done.returncode == 1


def test_a_certificate_that_is_not_accepted_is_not_a_server_that_is_down(env, files):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files / "a.pem", files / "a.key")

    def serve(listening):
        with pytest.raises(ssl.SSLError), listening.accept()[0] as one:
            tls.wrap_socket(one, server_side=True)

    with create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        listening.settimeout(30)
        served = pool.submit(serve, listening)
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        (files / "c.toml").write_text(
            f'[map]\ndefault = "x/m"\n[providers.x]\napi = "anthropic"\nurl = "{url}"\n'
            '[models."x/m"]\ntools = true\n'
        )
        done = run(env, "doctor", "--config", "c.toml", cwd=files)
        served.result()
    shown = done.stdout.decode()
    assert f"BAD   x at {url} runs, but its certificate is not accepted (" in shown
    assert "→ If its authority is your own, set `SSL_CERT_FILE` to a PEM file" in shown
    assert "start it, or" not in shown
