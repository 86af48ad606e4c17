"""`doctor` reads the files of `[tls]` as `serve` does."""

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
