"""Clouds in the commands: doctor gets credentials, allow prints what would be run."""

import pytest

from toolbridge.cli import allow, doctor
from toolbridge.config import Config, ProviderConfig, secrets_of
from toolbridge.core.redaction import Redactor
from toolbridge.upstream.clouds import available


async def found(provider: str, **settings):
    config = Config(
        providers={provider: ProviderConfig(**settings)},
        map={"default": f"{provider}/anthropic.claude-opus-5-5"},
    )
    return "\n".join(map(str, await doctor._models(config, [])))


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """An environment without credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


async def test_doctor_gets_the_credentials_and_asks_no_model(bare):
    bare.setenv("AWS_BEARER_TOKEN_BEDROCK", "ABSK-x")
    shown = await found("bedrock", region="eu-west-1")
    assert "ok    bedrock has credentials for bedrock-runtime.eu-west-1.amazonaws.com" in shown
    shown = await found("frankfurt", cloud="mantle", region="eu-central-1")
    assert "bedrock-mantle.eu-central-1.api.aws" in shown


async def test_doctor_names_what_a_cloud_lacks(bare):
    shown = await found("bedrock", key="k")
    assert "BAD   bedrock: providers.bedrock.region: needs an AWS region" in shown
    assert "AWS_REGION" in shown
    shown = await found("bedrock", region="us-east-1", token_command=("/bin/false",))
    assert "'/bin/false' failed (1)" in shown
    assert "check `token_command`" in shown
    shown = await found("vertex", project="p", token_command=("/bin/echo", "t"))
    assert "vertex has credentials for aiplatform.googleapis.com" in shown


async def test_doctor_names_credentials_and_address_at_once(bare):
    bare.setattr(available, "_has", lambda _: False)
    for name in ("AZURE_OPENAI_API_KEY", "ANTHROPIC_FOUNDRY_API_KEY", "AZURE_OPENAI_AD_TOKEN", "ANTHROPIC_FOUNDRY_RESOURCE"):  # fmt: skip
        bare.delenv(name, raising=False)
    shown = await found("bedrock")
    assert "AWS_ACCESS_KEY_ID" in shown
    assert "bedrock needs an AWS region" in shown
    assert "In addition, bedrock has no AWS credentials" in shown
    shown = await found("foundry")
    assert "ANTHROPIC_FOUNDRY_API_KEY" in shown
    assert "AZURE_OPENAI_API_KEY" not in shown


def test_a_cloud_with_other_credentials_needs_no_key(bare):
    bare.delenv("ANTHROPIC_FOUNDRY_API_KEY", raising=False)
    place = ProviderConfig(key="$ANTHROPIC_FOUNDRY_API_KEY", token_command=("/bin/echo", "t"))
    shown = "\n".join(map(str, doctor._keys(Config(providers={"foundry": place}))))
    assert "is not set" not in shown


def test_allow_prints_the_command_that_a_file_would_run():
    provider = ProviderConfig(
        cloud="vertex", token_command=("gcloud", "auth", "print-access-token")
    )
    lines = [*allow._contents(Config(providers={"vertex": provider}))]
    assert "  provider vertex runs gcloud auth print-access-token" in lines


def test_secrets_of_clouds_are_redacted():
    env = {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG", "AWS_SESSION_TOKEN": "IQoJb3JpZ2lu"}
    known = secrets_of(Config(), [ProviderConfig(cloud="bedrock")], env)
    redactor = Redactor(known)
    for text in (*env.values(), "ABSKQmVkcm9ja0FQSUtleS1hYmNkZWZnaGlq", "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3M"):  # fmt: skip
        assert text not in redactor.text(f"failed with {text} at the end")
