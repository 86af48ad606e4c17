"""What a reload uses of a changed configuration, and what it keeps until a restart."""

import msgspec
import pytest
from tests.tables import every_row

from toolbridge import config_file
from toolbridge.config import Config, ProviderConfig, StreamConfig, TlsConfig
from toolbridge.core.errors import ConfigError
from toolbridge.server.reload import ConfigFile, keep_settled, restart_fault, tell_unchanged

SETTLED = {
    "host": "0.0.0.1",
    "port": 1,
    "workers": 3,
    "store": "redis://127.0.0.1",
    "store_bytes": 1,
    "explain_bytes": 1,
    "record": "there",
    "record_files": 1,
    "record_bytes": 1,
    "ledger": "there",
    "ledger_days": 1,
    "otel": "http://127.0.0.1:4318",
    "limits_offline": "allow",
}
SETTLED_OF_STREAMS = {
    "grace": 1.5,
    "max_streams": 1,
    "run_bytes": 1,
    "artifacts": False,
    "keep_runs": 1,
    "keep_bytes": 1,
}

RESTART = "run `toolbridge restart` to apply:"
STOP = "run `toolbridge stop` and `toolbridge serve` to apply:"


@every_row(("name", "value"), SETTLED.items())
def test_a_setting_of_the_process_stays_until_a_restart(name, value):
    old, new = Config(), msgspec.structs.replace(Config(), heal=7, **{name: value})
    assert getattr(old, name) != value
    kept, names = keep_settled(old, new)
    assert names == [name]
    assert kept == msgspec.structs.replace(old, heal=7)


@every_row(("name", "value"), SETTLED_OF_STREAMS.items())
def test_a_setting_of_the_run_store_stays_until_a_restart(name, value):
    old = Config()
    stream = msgspec.structs.replace(StreamConfig(), depth=7, **{name: value})
    assert getattr(old.stream, name) != value
    kept, names = keep_settled(old, Config(stream=stream))
    assert names == [f"stream.{name}"]
    assert kept.stream == msgspec.structs.replace(old.stream, depth=7)


def test_all_that_stays_is_named():
    new = Config(port=1, stream=StreamConfig(grace=1.5), tls=TlsConfig(cert="a"))
    kept, names = keep_settled(Config(), new)
    assert names == ["port", "stream.grace", "tls"]
    assert kept == Config()
    assert keep_settled(new, new) == (new, [])


def test_the_terms_of_a_node_that_is_paid_stay_until_a_restart():
    def paying(price: str, heal: int) -> Config:
        node = ProviderConfig(api="node", node={"model": "r:f", "price": price})
        other = ProviderConfig(api="ollama", url=f"http://127.0.0.1:{heal}")
        return Config(providers={"paid": node, "other": other}, heal=heal)

    old, new = paying("1", 1), paying("9", 2)
    kept, names = keep_settled(old, new)
    assert names == ["providers.paid"]
    assert kept.providers["paid"] == old.providers["paid"]
    assert kept.providers["other"] == new.providers["other"]
    assert kept.heal == 2


@every_row(
    ("old", "new", "used", "names"),
    [
        (TlsConfig(), TlsConfig(cert="a"), TlsConfig(), ["tls"]),
        (TlsConfig(cert="a"), TlsConfig(), TlsConfig(cert="a"), ["tls"]),
        (TlsConfig(cert="a"), TlsConfig(cert="b"), TlsConfig(cert="b"), []),
        (TlsConfig(cert="a"), TlsConfig(cert="b", port=1), TlsConfig(cert="b"), ["tls"]),
    ],
)
def test_a_certificate_follows_and_a_port_does_not(old, new, used, names):
    kept, named = keep_settled(Config(tls=old), Config(tls=new))
    assert (kept.tls, named) == (used, names)


@every_row(
    ("names", "said"),
    [
        ([], ""),
        (["store", "stream.grace"], f"{RESTART} store, stream.grace"),
        (["host", "tls"], f"{STOP} host, tls"),
        (
            ["port", "otel", "workers"],
            f"{RESTART} otel; {STOP} port, workers",
        ),
    ],
)
def test_the_command_that_applies_a_setting_is_named(names, said):
    assert tell_unchanged(names) == said


# ── the file ─────────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path):
    """A configuration file that a gateway was started with."""
    path = tmp_path / "own.toml"
    path.write_text("port = 4001\nheal = 1\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    source = config_file.choose(path, env)
    return ConfigFile(source, named=path, env=env, flags={"heal": 2})


def test_a_restart_cannot_apply_another_port(file):
    path = file.source.path
    assert restart_fault(Config(port=4001), None) == ""
    assert restart_fault(Config(port=4001), file) == ""
    path.write_text('port = 4002\notel = "http://127.0.0.1:4318"\n')
    assert restart_fault(Config(port=4001), file) == f"{STOP} port"
    path.write_text("port = 1.5\n")
    assert restart_fault(Config(port=4001), file) == ""


def test_the_file_is_read_again_with_the_flags(file):
    file.source.path.write_text("port = 4003\nheal = 3\n")
    found = file.read()
    assert (found.port, found.heal) == (4003, 2)
    assert file.source.content == b"port = 4003\nheal = 3\n"


def test_a_fault_names_the_file_and_the_line(file):
    path = file.source.path
    path.write_text("heal = 1\nport = 1.5\n")
    with pytest.raises(ConfigError) as caught:
        file.read()
    assert file.located(caught.value).startswith(f"{path}: ")
    assert file.located(ConfigError("no place")) == "no place"


def test_the_stamp_changes_with_each_watched_file(file, tmp_path):
    certificate = tmp_path / "cert.pem"
    further = ("", str(certificate))
    absent = file.stamp(further)
    assert file.stamp(further) == absent
    certificate.write_text("a")
    present = file.stamp(further)
    assert present != absent
    certificate.write_text("ab")
    assert file.stamp(further) != present
    changed = file.stamp(further)
    file.source.path.write_text("port = 1\n")
    assert file.stamp(further) != changed
    assert file.stamp() == file.stamp(("",))
