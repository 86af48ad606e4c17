"""Encrypted nodes in the configuration: what is refused at the start, and where the key may be."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.node.gateways import MODEL, PUBLIC
from tests.tables import every_row

from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.settings import NodeSettings
from toolbridge.routing.models import ModelRoutes
from toolbridge.routing.nodes import (
    _Waits,
    _without_extra,
    ledger_dir,
    log_payments,
    open_node,
    read_key,
    short_name,
)
from toolbridge.upstream.http import Upstream

KEY = "c3" * 32
DIRECT = {"model": MODEL, "host_url": "http://127.0.0.1:1", "host_key": PUBLIC}


def model_routes(place: ProviderConfig, env: dict | None = None, **config) -> ModelRoutes:
    return ModelRoutes(Config(providers={"mine": place}, **config), Upstream(), env or {})


@pytest.mark.req("CB-07")
@every_row(
    ("place", "words"),
    [
        ({"node": {}}, "providers.mine.node: no model is set"),
        ({"node": {"model": "x"}}, "repo:file"),
        ({"node": DIRECT | {"deposti": "1"}}, "`deposti`"),
        ({"node": DIRECT | {"mode": "best"}}, "mode"),
        ({"node": DIRECT | {"sessions": 0}}, "sessions"),
        ({"node": {"model": MODEL, "deposit": "much"}}, "`deposit`"),
        ({"node": {"model": MODEL, "host": "http://x"}}, "`host` is not an address"),
        ({"node": {"model": MODEL, "network": "mars"}}, "'mars'"),
        ({"node": DIRECT, "url": "http://x"}, "has no `url`"),
        ({"node": DIRECT, "quirks": {"framming": "x"}}, "framming: there is no quirk"),
        ({"node": DIRECT, "quirks": {"framing": "x"}}, 'quirks.framing: must be "chatml" or "labelled"'),
        ({"node": DIRECT | {"waits": 5}}, "providers.mine.node.waits"),
        ({"node": DIRECT, "api": "demo"}, 'only with api = "node"'),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_named_at_the_start(place, words):
    with pytest.raises(ConfigError) as raised:
        model_routes(ProviderConfig(**{"api": "node"} | place))
    assert words in str(raised.value)
    assert "providers.mine" in str(raised.value)


def without(library: str, api: str) -> str:
    """Return what an installation without `library` says of a provider."""
    script = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from toolbridge.config import Config, ProviderConfig\n"
        "from toolbridge.routing.providers import find_providers\n"
        f"table = {DIRECT if api == 'node' else {}!r}\n"
        f"find_providers(Config(providers={{'mine': ProviderConfig(api={api!r}, node=table)}}), {{}})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    return done.stderr


@pytest.mark.parametrize("library", ["coincurve", "Crypto"])
def test_without_its_libraries_a_node_says_how_to_get_them(library):
    last = without(library, "node").strip().splitlines()[-1]
    assert "pip install '.[node]'" in last
    assert "ConfigError" in last


def test_a_gateway_without_nodes_needs_none_of_their_libraries():
    assert without("coincurve", "demo") == ""


def test_every_setting_of_a_node_is_described():
    page = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text("utf-8")
    described = set(
        re.findall(r"`(\w+)`", page.partition("## A node")[2].partition("## A model")[0])
    )
    assert {*NodeSettings.__struct_fields__, "waits", *_Waits.__struct_fields__} <= described


# ── the key ──


def test_the_key_may_be_in_a_variable_of_any_name_or_in_a_file(tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    for key, env in [
        ("$MINE", {"MINE": KEY}),
        ("env:MINE", {"MINE": f"0x{KEY}"}),
        (f"file:{file}", {}),
        ("", {"CLAUDE_BRIDGE_PRIVATE_KEY": KEY}),
        ("", {"TOOLBRIDGE_NODE_KEY": KEY}),
    ]:
        place = ProviderConfig(api="node", key=key)
        assert read_key("mine", place, env) == Secret.from_hex(KEY)


@every_row(
    ("key", "words"),
    [
        (KEY, "must not be the key itself"),
        (f"0x{KEY}", "must not be the key itself"),
        ("$MINE", "$MINE is not set"),
        ("file:/nowhere/key", "cannot be read"),
        ("", "CLAUDE_BRIDGE_PRIVATE_KEY"),
    ],
)
def test_a_key_that_is_missing_or_stands_in_the_file_is_refused_unseen(key, words):
    with pytest.raises(ConfigError) as raised:
        read_key("mine", ProviderConfig(api="node", key=key), {})
    assert words in str(raised.value)
    assert KEY not in str(raised.value)


async def test_a_route_does_not_carry_the_key():
    place = ProviderConfig(api="node", key="$MINE", node=DIRECT)
    there = model_routes(place, {"MINE": KEY})
    await there.discover()
    route = await there.route("claude-sonnet-5-5")
    assert (route.provider, route.key) == ("mine", "")
    assert KEY not in repr(route)


def test_money_needs_a_place_for_its_ledger(tmp_path):
    with pytest.raises(ConfigError, match="HOME or XDG_STATE_HOME"):
        ledger_dir({})
    assert ledger_dir({"HOME": "/h"}).as_posix() == "/h/.local/state/toolbridge"
    assert ledger_dir({"HOME": "/h", "XDG_STATE_HOME": "/s"}).as_posix() == "/s/toolbridge"
    paying = ProviderConfig(api="node", node={"model": MODEL})
    with pytest.raises(ConfigError, match="ledger"):
        open_node("mine", paying, {"CLAUDE_BRIDGE_PRIVATE_KEY": KEY})
    assert open_node("mine", ProviderConfig(api="node", node=DIRECT), {})


# ── models ──


@pytest.mark.parametrize(
    ("model", "name"),
    [(MODEL, "GLM-4.7-Flash-UD-Q8_K_XL"), ("a/b:c.bin", "c.bin"), ("0x" + "1" * 64, "0x" + "1" * 64)],
)  # fmt: skip
def test_a_model_is_called_by_its_file(model, name):
    assert short_name(model) == name


@pytest.mark.parametrize(
    ("settings", "can"),
    [
        (ModelConfig(), {"thinking"}),
        (ModelConfig(thinking=False), set()),
        (ModelConfig(tools=True), {"thinking"}),
        (ModelConfig(vision=True), {"thinking", "vision"}),
    ],
)
async def test_a_node_has_no_tools_whatever_is_said(settings, can):
    place = ProviderConfig(api="node", window=8192, node=DIRECT)
    there = model_routes(place, models={f"mine/{MODEL}": settings})
    await there.discover()
    route = await there.route("claude-opus-5")
    assert route.target.capabilities == can
    assert route.target.window == 8192


@pytest.mark.parametrize(("given", "retries"), [({}, 0), ({"retries": 2}, 2)])
async def test_a_node_is_not_asked_again_unless_that_is_wished(given, retries):
    there = model_routes(ProviderConfig(api="node", node=DIRECT, **given))
    await there.discover()
    assert (await there.route("claude-opus-5")).retries == retries


def test_payments_are_logged_once_and_printable(capsys):
    log = logging.getLogger("toolbridge.node")
    before = (log.handlers, log.level, log.propagate)
    log.handlers = []
    try:
        log_payments()
        log_payments()
        log.info("paid to %s", "host\x1b[2J")
        log.debug("not shown")
    finally:
        log.handlers, log.level, log.propagate = before
    shown = capsys.readouterr().err
    assert shown.count("paid to host") == shown.count("\n") == 1
    assert shown.startswith("toolbridge: paid")
    assert "\x1b" not in shown


def test_a_library_of_the_extra_that_is_missing_is_named():
    found = _without_extra(ImportError("no", name="coincurve.keys"), "mine")
    assert isinstance(found, ConfigError)
    assert "providers.mine is an encrypted node" in str(found)
    assert "(coincurve.keys is missing)" in str(found)
    for other in (ImportError("no", name="toolbridge.gone"), ImportError("no")):
        assert _without_extra(other, "mine") is other
