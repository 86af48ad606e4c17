import pytest
from tests.tables import every_row

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain import networks
from toolbridge.node.chain.amounts import ETH, Currency, format_amount, parse_amount
from toolbridge.node.keys import find_key, key_from_file, key_from_text
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.settings import from_env, read_settings

MODEL = {"model": "repo:file"}
HOST = "0x" + "ab" * 20
KEY = "5f" * 32
PUBLIC = "024bc2a31265153f07e70e0bab08724e6b85e217f8cd628ceb62974247bb493382"


class TestSettings:
    @pytest.mark.req("CB-06")
    def test_the_defaults_are_those_of_the_network_and_the_bridge(self):
        found = read_settings(MODEL)
        assert found.chain.chain_id == 84532
        assert found.deposit_amount == 2 * 10**14
        assert (found.proof_interval, found.duration, found.proof_timeout) == (100, 86400, 3600)
        assert found.currency == ETH
        assert found.highest_price == 5000 * 227_272_727  # 5 dollars at 4,400 dollars per ETH
        assert read_settings(MODEL | {"pay": "token"}).highest_price == 5000

    def test_a_token_has_its_own_amounts(self):
        found = read_settings(MODEL | {"pay": "token"})
        assert found.currency == Currency(networks.load("base-sepolia").token, 6, "USDC")
        assert (found.deposit_amount, found.limit_amount) == (500_000, 5_000_000)

    @pytest.mark.req("CB-07")
    def test_a_missing_model_is_refused_at_once_by_name(self):
        with pytest.raises(ConfigError, match="no model is set; set --model, CLAUDE_BRIDGE_MODEL"):
            read_settings({})

    @pytest.mark.req("CB-07")
    def test_a_host_is_optional(self):
        assert read_settings(MODEL).host == ""

    @every_row(
        ("given", "words"),
        [
            ({"model": "no-colon"}, "repo:file"),
            ({"modle": "x"}, "modle"),
            ({"host": "http://host"}, "`host` is not an address"),
            ({"host_url": "http://host"}, "`host_url` also needs `host`"),
            ({"host_key": "02ab"}, "`host_key` is not a public key"),
            ({"deposit": "much"}, "`deposit`"),
            ({"deposit": "1"}, "`daily_limit` is below one `deposit`"),
            ({"deposit": "0.0000000000000000001"}, "18 decimal places"),
            ({"daily_gas": "0"}, "`daily_gas`"),
            ({"network": "elsewhere"}, "base-sepolia"),
            ({"registry": "0x12"}, "`registry` is not an address"),
            ({"rpc_url": "ftp://x"}, "`rpc_url`"),
            ({"network": ""}, "`rpc_url` is not set"),
            ({"network": "", "rpc_url": "http://x"}, "`chain_id` is not set"),
            ({"mode": "best"}, "mode"),
            ({"proof_timeout": 59}, "proof_timeout"),
            ({"proof_interval": 99}, "proof_interval"),
            ({"duration": 366 * 86400}, "duration"),
            ({"sessions": 0}, "sessions"),
            (
                {"network": "", "rpc_url": "http://x", "chain_id": 1, "marketplace": HOST, "registry": HOST,
                 "pay": "token"},
                "`token` is not set",
            ),
        ],
    )  # fmt: skip
    def test_what_cannot_work_is_refused_before_anything_is_paid(self, given, words):
        with pytest.raises(ConfigError, match=words) as caught:
            read_settings(MODEL | given, "toolbridge.toml")
        assert str(caught.value).startswith("toolbridge.toml: ")

    @every_row(
        ("given", "text"),
        [
            ({"price": -1}, "`price` must be a whole number from 0 to 9223372036854775807, not -1"),
            ({"price": "abc"}, "`price` must be a whole number from 0 to 9223372036854775807, not 'abc'"),
            ({"chain_id": 1.5}, "`chain_id` must be a whole number from 0 to 9223372036854775807, not 1.5"),
            ({"sessions": 65}, "`sessions` must be a whole number from 1 to 64, not 65"),
            ({"sessions": True}, "`sessions` must be a whole number from 1 to 64, not true"),
            ({"confirmations": -1}, "`confirmations` must be a whole number from 0 to 1000, not -1"),
            ({"proof_interval": 9}, "`proof_interval` must be a whole number of at least 100, not 9"),
            ({"seed": "x"}, "`seed` must be a whole number, not 'x'"),
            ({"count_tolerance": -1}, "`count_tolerance` must be a number from 0 to 100, not -1"),
            ({"daily_gas": 0.5}, '`daily_gas` must be a text in quotes, not 0.5; write daily_gas = "0.5"'),
            ({"deposit": 1e-05}, '`deposit` must be a text in quotes, not 1e-05; write deposit = "0.00001"'),
            ({"job_id": 1}, '`job_id` must be a text in quotes, not 1; write job_id = "1"'),
            ({"job_id": True}, "`job_id` must be a text in quotes, not true"),
            ({"deposit": float("nan")}, "`deposit` must be a text in quotes, not nan"),
            ({"allow": HOST}, f"`allow` must be a list of texts, such as [\"a\", \"b\"], not '{HOST}'"),
            ({"deny": [1]}, '`deny` must be a list of texts, such as ["a", "b"], not [1]'),
            ({"allow": ["0x123"]}, "`allow` has '0x123', which is not an address of a host (0x and 40 hex digits)"),
            ({"pay": "gold"}, "`pay` must be \"native\" or \"token\", not 'gold'"),
            ({"private_hosts": 1}, "`private_hosts` must be true or false, not 1"),
            ({"dailylimit": "1"}, "there is no setting `dailylimit`; did you mean `daily_limit`?"),
            ({"xyz": "1"}, "there is no setting `xyz`"),
            ({"deposit": "0"}, "`deposit` is 0, so no session can be paid; set `deposit` to an amount such as 0.0002"),
        ],
    )  # fmt: skip
    def test_a_wrong_setting_is_named_with_its_value_and_what_is_valid(self, given, text):
        with pytest.raises(ConfigError) as caught:
            read_settings(MODEL | given, "mine.toml")
        assert str(caught.value) == f"mine.toml: {text}"

    @every_row("name", ["price", "job_id", "allow"])
    @every_row("digits", [80, 400, 5000])
    def test_a_long_value_is_shortened(self, name, digits):
        with pytest.raises(ConfigError, match=f"`{name}` must be a") as caught:
            read_settings(MODEL | {name: 10**digits})
        assert ("…" in str(caught.value)) == (digits < 5000)
        assert len(str(caught.value)) < 190

    def test_with_url_and_key_no_chain_is_needed(self):
        found = read_settings(
            MODEL | {"host_url": "http://h", "host_key": PUBLIC, "network": "", "deposit": "?"}
        )
        assert found.direct

    def test_settings_go_before_the_network(self):
        found = read_settings(MODEL | {"rpc_url": "http://mine", "marketplace": HOST}).chain
        assert (found.rpc_url, found.marketplace) == ("http://mine", HOST)
        assert found.registry == networks.load("base-sepolia").registry

    @pytest.mark.req("CB-08")
    def test_the_environment_takes_effect(self):
        env = {
            "CLAUDE_BRIDGE_MODEL": "a:b", "CLAUDE_BRIDGE_HOST": HOST, "CLAUDE_BRIDGE_DEPOSIT": "0.001",
            "CLAUDE_BRIDGE_RPC_URL": "http://rpc", "CLAUDE_BRIDGE_CHAIN_ID": "31337",
            "CLAUDE_BRIDGE_LOCALHOST_OVERRIDE": "host.docker.internal", "OTHER": "x",
        }  # fmt: skip
        found = read_settings(from_env(env))
        assert (found.model, found.host, found.deposit_amount) == ("a:b", HOST, 10**15)
        assert (found.chain.rpc_url, found.chain.chain_id) == ("http://rpc", 31337)
        assert found.localhost_override == "host.docker.internal"
        assert from_env({"CLAUDE_BRIDGE_MODEL": ""}) == {}

    @every_row("text", ["ten", "0x10", "²", "-1", "9" * 5000])
    def test_a_chain_that_is_no_number_is_named(self, text):
        with pytest.raises(ConfigError, match="CLAUDE_BRIDGE_CHAIN_ID"):
            from_env({"CLAUDE_BRIDGE_CHAIN_ID": text})


class TestKeys:
    @pytest.mark.req("CB-07")
    def test_a_missing_key_is_refused_at_once_by_name(self):
        with pytest.raises(ConfigError, match="CLAUDE_BRIDGE_PRIVATE_KEY"):
            find_key({})

    @pytest.mark.req("CB-08")
    def test_a_flag_goes_before_a_file_and_a_file_before_the_environment(self, tmp_path):
        file = tmp_path / "key"
        file.write_text("0x" + "22" * 32 + "\n")
        file.chmod(0o600)
        env = {"CLAUDE_BRIDGE_PRIVATE_KEY": "33" * 32, "TOOLBRIDGE_NODE_KEY": "44" * 32}
        assert find_key(env, given="11" * 32, file=file) == Secret.from_hex("11" * 32)
        assert find_key(env, file=file) == Secret.from_hex("22" * 32)
        assert find_key(env) == Secret.from_hex("33" * 32)
        assert find_key({"TOOLBRIDGE_NODE_KEY": "44" * 32}) == Secret.from_hex("44" * 32)

    @pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
    def test_a_key_that_others_can_read_is_refused(self, tmp_path, mode):
        file = tmp_path / "key"
        file.write_text(KEY)
        file.chmod(mode)
        with pytest.raises(ConfigError, match="chmod 600"):
            key_from_file(file)

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path):
        with pytest.raises(ConfigError, match="No such file"):
            key_from_file(tmp_path / "none")
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        with pytest.raises(ConfigError, match="not a text file"):
            key_from_file(tmp_path / "binary")

    @every_row("text", [KEY[:-1], KEY + "0", "zz" + KEY[2:], "00" * 32, "ff" * 32])
    def test_a_wrong_key_is_refused_and_not_repeated(self, text):
        with pytest.raises(ConfigError, match="the flag is not a private key") as caught:
            key_from_text(text, "the flag")
        assert text not in str(caught.value)
        assert caught.value.__cause__ is None


@every_row(
    ("text", "decimals", "amount"),
    [
        ("0.0002", 18, 2 * 10**14), ("1", 18, 10**18), ("0.50", 6, 500_000), ("5", 0, 5),
        ("1.000000000", 6, 10**6), (" 2.5 ", 1, 25), ("0", 18, 0), ("0" * 40 + "1", 0, 1), ("9" * 12, 0, 10**12 - 1),
    ],
)  # fmt: skip
def test_amounts_are_read_exactly(text, decimals, amount):
    assert parse_amount(text, decimals) == amount
    assert parse_amount(format_amount(amount, decimals), decimals) == amount


@every_row("text", ["1" + "0" * 12, "9" * 26, "1" + "0" * 73, "9" * 5000, "9" * 13 + ".5"])
def test_an_amount_that_is_too_large_is_called_too_large(text):
    with pytest.raises(ConfigError, match=r"--deposit is too large: .*12 digits") as caught:
        parse_amount(text, 6, "--deposit")
    assert len(str(caught.value)) < 170


@every_row("text", ["", ".5", "1.", "-1", "1e3", "0x1", "1,5", "1.0000001", "²", "٣"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(ConfigError):
        parse_amount(text, 6)
