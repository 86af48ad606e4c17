"""Defaults, then the file, then the environment, then flags; a typo is an error with a hint."""

import re
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge import config, config_file, trust
from toolbridge.core.errors import ConfigError
from toolbridge.routing.providers import find_providers


def write(tmp_path, text: str):
    file = tmp_path / "toolbridge.toml"
    file.write_text(text)
    return file


@pytest.mark.req("CB-06")
def test_the_defaults():
    found = config_file.load(env={})
    assert (found.host, found.port, found.thinking, found.heal) == ("127.0.0.1", 3456, "auto", 2)


@pytest.mark.req("TF-11", "CL-04")
def test_silence_is_broken_in_time_for_every_client():
    found = config_file.load(env={})
    assert found.stream.ping == 15
    assert found.first_byte <= 5
    assert found.keep_alive <= 15


@pytest.mark.req("PX-X8", "CB-08")
@pytest.mark.parametrize("name", ["TOOLBRIDGE_PORT", "PORT", "CLAUDE_BRIDGE_PORT"])
def test_the_environment_goes_before_the_file_and_flags_before_both(tmp_path, name):
    file = write(tmp_path, "port = 1\n")
    assert config_file.load(file, env={}).port == 1
    assert config_file.load(file, env={name: "2"}).port == 2
    assert config_file.load(file, env={name: "2"}, flags={"port": 3}).port == 3
    assert config_file.load(file, env={name: "2"}, flags={"port": None}).port == 2


def test_the_more_specific_variable_wins():
    assert config_file.load(env={"PORT": "1", "TOOLBRIDGE_PORT": "2"}).port == 2


def test_models_may_be_named_in_the_environment(tmp_path):
    file = write(tmp_path, '[map]\nopus = "a/b"\n')
    env = {"TOOLBRIDGE_MODEL": "ollama/x", "MODEL_OPUS": "c/d"}
    assert config_file.load(file, env=env).map == {"default": "ollama/x", "opus": "c/d"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "there is no setting `prot`; did you mean `port`?"),
        ("port = 'x'", "port: expected `int`"),
        ("[providers.a]\nulr = 'x'", "providers"),
        ("thinking = 'maybe'", "thinking"),
        ("port = ", "is not valid TOML"),
        ("port = 65536", "port: expected `int` <= 65535"),
        ("port = -1", "port: expected `int` >= 0"),
        ("keep_alive = 0", "keep_alive: expected `float` > 0"),
        ("keep_alive = nan", "keep_alive: expected `float` > 0"),
        ("heal = 9", "heal: expected `int` <= 3"),
        ("map = 'demo/x'", "map: expected a table, got 'demo/x'"),
        ("[map]\nopus = 5", "map.opus: expected `str`"),
        ("[providers.a]\nretries = -1", "providers.a.retries: expected `int` >= 0"),
        (
            "[providers.a]\nport = 1",
            "providers.a: there is no setting `port`; it belongs to the top level",
        ),
        ("[models.b]\nrate = {}", "models.b: there is no setting `rate`; did you mean `rates`?"),
        ("[models.b.rates]\nout = 1", "models.b.rates: there is no setting `out`"),
        ("[map]\na = 'b'\nb = 'c'\nc = 'a'", "map: a → b → c → a is a cycle"),
        ("port = 1\n[map]\nx = 'p/q'\na = ['p/q', 'b']\nb = 'a'", "line 4: map: a → b → a is a"),
        ("[map]\na = []", "line 2: map: a has no address in its list"),
        ("[map]\n'a' = ['p/q', ' ']", "line 2: map: a has no address in its list"),
        ("[map]\na = ['p/q', 5]", "map.a.[1]: expected `str`, got `int`"),
    ],
)
def test_a_fault_in_the_file_is_named_with_its_place(tmp_path, text, words):
    with pytest.raises(ConfigError, match=r"toolbridge\.toml") as caught:
        config_file.load(write(tmp_path, text), env={})
    assert words in str(caught.value)


@every_row("text", ["many", "²", "-1", "65536", "1e3", " 1"])
def test_a_port_that_is_none_names_its_variable(text):
    with pytest.raises(ConfigError, match="TOOLBRIDGE_PORT: must be a port number"):
        config_file.load(env={"TOOLBRIDGE_PORT": text})


def test_a_value_of_the_map_may_be_a_chain_of_addresses_and_names(tmp_path):
    text = """[map]
default = ["a/x", "b/y"]
opus = "default"
haiku = ["c/z", "opus", "a/x"]
one = ["a/x"]
"""
    assert config_file.load(write(tmp_path, text), env={}).map == {
        "default": ("a/x", "b/y"),
        "opus": ("a/x", "b/y"),
        "haiku": ("c/z", "a/x", "b/y"),
        "one": "a/x",
    }


def test_a_name_in_the_map_may_stand_for_another(tmp_path):
    file = write(tmp_path, "[map]\ndefault = 'sonnet'\nsonnet = 'ollama/x'\nqwen3 = 'qwen3'\n")
    found = config_file.load(file, env={"MODEL_OPUS": "default"}, flags={"model": None}).map
    assert found == {
        "default": "ollama/x", "sonnet": "ollama/x", "opus": "ollama/x", "qwen3": "qwen3"
    }  # fmt: skip
    assert config_file.load(file, env={}, flags={"model": "demo/d"}).map["default"] == "demo/d"


def test_a_file_may_begin_with_the_mark_that_some_editors_write(tmp_path):
    file = tmp_path / "toolbridge.toml"
    file.write_bytes(b"\xef\xbb\xbfport = 7")
    assert config_file.load(file, env={}).port == 7


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path):
    with pytest.raises(ConfigError, match="toolbridge init"):
        config_file.load(tmp_path / "none.toml", env={})


def test_the_file_is_found_here_then_in_the_users_configuration(tmp_path, monkeypatch):
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    (home / "toolbridge").mkdir(parents=True)
    monkeypatch.chdir(here)
    env = {"XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert config_file.choose(None, env).path is None
    (home / "toolbridge" / "toolbridge.toml").write_text("port = 1")
    assert config_file.load(env=env).port == 1
    (here / "toolbridge.toml").write_text("port = 2")
    trust.allow(here / "toolbridge.toml", env)
    assert config_file.load(env=env).port == 2
    (tmp_path / "named.toml").write_text("port = 3")
    assert config_file.load(env=env | {"TOOLBRIDGE_CONFIG": str(tmp_path / "named.toml")}).port == 3


@every_row("text", ["$NAME", "${NAME}", "env:NAME", "env.NAME", "os.environ/NAME"])
def test_a_key_may_be_given_by_reference(text):
    assert config.secret(text, {"NAME": "value"}) == "value"
    assert config.secret(text, {}) == ""


def test_a_key_may_be_given_as_itself():
    assert config.secret("sk-123$", {}) == "sk-123$"


@pytest.mark.parametrize("new", [{}, {"max_streams": 9}], ids=["old alone", "old and new"])
def test_an_old_setting_is_accepted_with_a_warning_that_names_the_new_one(tmp_path, caplog, new):
    lines = ["[stream]", "most = 7", *(f"{name} = {value}" for name, value in new.items())]
    path = tmp_path / "toolbridge.toml"
    path.write_text("\n".join(lines))
    assert config_file.load(path, env={}).stream.max_streams == new.get("max_streams", 7)
    assert f"{path}: stream.most is now called stream.max_streams" in caplog.text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[models."a/b"]\nrates = { input = -1.0 }\n', "rates.input: expected `float` >= 0.0"),
        ('[map]\ndefault = ""\n', "line 2: map: default has no address"),
        ('[map]\nfast = " "\n', "line 2: map: fast has no address"),
    ],
)
def test_negative_rates_and_empty_addresses_are_rejected(tmp_path, text, fault):
    file = tmp_path / "toolbridge.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(fault)):
        config_file.load(file, env={})


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TOOLBRIDGE_THINKING", "maybe"), ("TOOLBRIDGE_LOG", "loud"), ("TOOLBRIDGE_WORKERS", "0")],
)
def test_a_wrong_variable_is_not_blamed_on_the_file(tmp_path, variable, value):
    file = tmp_path / "toolbridge.toml"
    file.write_text("port = 3000\n")
    with pytest.raises(ConfigError, match=f"^{variable}: "):
        config_file.load(file, env={variable: value})


def test_a_wrong_flag_is_not_blamed_on_the_file(tmp_path):
    file = tmp_path / "toolbridge.toml"
    file.write_text("port = 3000\n")
    with pytest.raises(ConfigError, match=r"^the command line: port: .*65535"):
        config_file.load(file, env={}, flags={"port": 70_000, "host": None})


@pytest.mark.parametrize(
    ("text", "env", "flags", "fault"),
    [
        ('key = ""\n', {}, {}, "t.toml: key: the key is empty"),
        ('key = " "\n', {}, {}, "t.toml: key: the key is empty"),
        ("", {"TOOLBRIDGE_KEY": ""}, {}, "TOOLBRIDGE_KEY: the key is empty"),
        ("", {"CLAUDE_BRIDGE_API_KEY": ""}, {}, "CLAUDE_BRIDGE_API_KEY: the key is empty"),
        ('key = "k"\n', {"TOOLBRIDGE_KEY": "k"}, {"key": ""}, "--api-key: the key is empty"),
        ('key = "k"\n', {"TOOLBRIDGE_KEY": " "}, {}, "TOOLBRIDGE_KEY: the key is empty"),
        ('key = ""\n', {"TOOLBRIDGE_KEY": "k"}, {}, ""),
        ('key = ""\n', {}, {"key": "k"}, ""),
        ('key = "k"\n', {"TOOLBRIDGE_KEY": ""}, {}, ""),
        ("", {"TOOLBRIDGE_KEY": "", "TOOLBRIDGE_API_KEY": "k"}, {"key": None}, ""),
    ],
)
def test_an_empty_key_is_an_error_unless_another_one_is_used(tmp_path, text, env, flags, fault):
    file = tmp_path / "t.toml"
    file.write_text(text)
    if not fault:
        assert config_file.load(file, env=env, flags=flags).key == "k"
        return
    with pytest.raises(ConfigError) as raised:
        config_file.load(file, env=env, flags=flags)
    assert fault in str(raised.value)
    assert "leave it out to require none" in str(raised.value)


GUIDES = [
    path for path in sorted((Path(__file__).parents[1] / "docs" / "guide").glob("*.md"))
    if "[providers." in path.read_text("utf-8") and path.stem != "node"  # parts of a node's table
]  # fmt: skip


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_providers_of_every_guide_are_accepted_as_they_stand(guide):
    blocks = re.findall(r"```toml\n(.*?)```", guide.read_text("utf-8"), re.DOTALL)
    for block in (block for block in blocks if "[providers." in block):
        source = config_file.ConfigSource(Path("toolbridge.toml"), block.encode())
        assert find_providers(config_file.read(source, env={}), {})
