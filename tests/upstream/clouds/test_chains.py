"""Credential chains of optional packages: used where they are installed, named where they are not."""

import sys

import pytest

from toolbridge.core.errors import ConfigError
from toolbridge.upstream.clouds import chains
from toolbridge.upstream.clouds.sigv4 import AwsKeys


@pytest.mark.parametrize(
    ("package", "fetch", "extra"),
    [
        ("botocore", lambda: chains.aws_keys("", "there"), ".[aws]"),
        ("google.auth", lambda: chains.google_token("there"), ".[google]"),
        ("azure.identity", lambda: chains.azure_token("s", "there", "K"), ".[azure]"),
    ],
)
async def test_a_missing_package_is_named_with_what_works_without_it(
    monkeypatch, package, fetch, extra
):
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in (package, f"{package}.session", f"{package}.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)  # which makes its import fail
    with pytest.raises(ConfigError) as error:
        await fetch()
    assert extra in str(error.value)
    assert "token_command" in str(error.value)


@pytest.fixture
def aws_files(monkeypatch, tmp_path):
    pytest.importorskip("botocore", reason="botocore is not installed")
    keys = tmp_path / "credentials"
    keys.write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = S\n"
        "[work]\naws_access_key_id = A2\naws_secret_access_key = S2\naws_session_token = T2\n"
    )
    for name, value in {
        "AWS_SHARED_CREDENTIALS_FILE": str(keys), "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return keys


async def test_profiles_are_read_by_botocore(aws_files):
    assert (await chains.aws_keys("", "bedrock")).value == AwsKeys("A", "S")
    found = await chains.aws_keys("work", "bedrock")
    assert found.value == AwsKeys("A2", "S2", "T2")
    assert found.until < 10**12
    with pytest.raises(ConfigError, match="nobody"):
        await chains.aws_keys("nobody", "bedrock")


async def test_no_credentials_at_all(aws_files):
    aws_files.unlink()
    with pytest.raises(ConfigError, match="AWS_BEARER_TOKEN_BEDROCK"):
        await chains.aws_keys("", "bedrock")
