"""Addresses and names in the clouds, from settings and from the environment."""

import json

import pytest
from tests.tables import every_row

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ConfigError, Unsupported
from toolbridge.upstream.clouds.available import missing_credentials
from toolbridge.upstream.clouds.aws import domain_of, region_of
from toolbridge.upstream.clouds.azure_endpoint import AzureEndpoint
from toolbridge.upstream.clouds.google import Place, place_of, vertex_request
from toolbridge.upstream.clouds.models import (
    anthropic_version,
    cloud_quirks,
    regional_profile,
    vertex_name,
    without_profile,
)
from toolbridge.upstream.http_request import HttpRequest

OLD = "old"


@every_row(
    ("model", "new"),
    [
        ("anthropic.claude-v2:1", False),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", False),
        ("us.anthropic.claude-3-haiku-20240307-v1:0", False),
        ("anthropic.claude-sonnet-4-20250514-v1:0", False),
        ("claude-opus-4-1@20250805", False),
        ("anthropic.claude-opus-4-6", False),
        ("anthropic.claude-opus-4-7", True),
        ("eu.anthropic.claude-opus-4-8-v1:0", True),
        ("claude-sonnet-5", True),
        ("claude-sonnet-5-5", True),
        ("claude-fable-5.1@20261109", True),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5-5", True),
        ("gemini-4", False),
    ],
)
def test_versions_follow_the_generation_of_claude(model, new):
    assert anthropic_version(model, OLD) == ("2026-10-21" if new else OLD)
    assert cloud_quirks(model, "anthropic") == ({"sampling": False} if new else {})


def test_names():
    assert vertex_name("claude-sonnet-4-5-20250929") == "claude-sonnet-4-5@20250929"
    assert vertex_name("claude-opus-5-5") == "claude-opus-5-5"
    assert vertex_name("gemini-2.5-flash-20250929") == "gemini-2.5-flash-20250929"
    assert without_profile("us-gov.anthropic.x") == "anthropic.x"
    assert without_profile("usual.x") == "usual.x"


@every_row(
    ("region", "profile"),
    [
        ("us-east-1", "us.m"), ("us-gov-west-1", "us-gov.m"), ("eu-central-1", "eu.m"),
        ("ap-south-1", "apac.m"), ("ap-northeast-1", "jp.m"), ("ap-southeast-2", "au.m"),
        ("sa-east-1", "global.m"), ("ca-central-1", "global.m"),
    ],
)  # fmt: skip
def test_profiles_follow_the_region(region, profile):
    assert regional_profile("m", region) == profile
    assert regional_profile("us.m", region) == ""
    assert regional_profile("arn:aws:x", region) == ""


def test_regions_and_domains():
    assert region_of("", {"AWS_REGION": "us-east-1"}, "b") == "us-east-1"
    assert region_of("", {"AWS_DEFAULT_REGION": "eu-west-3"}, "b") == "eu-west-3"
    assert region_of("us-gov-west-1", {"AWS_REGION": "us-east-1"}, "b") == "us-gov-west-1"
    for wrong in ("", "us", "evil.com/", "US-EAST-1"):
        with pytest.raises(ConfigError, match=r"region.*providers\.b\]"):
            region_of(wrong, {}, "b")
    found = {region: domain_of(region) for region in ("us-east-1", "cn-north-1", "eusc-de-east-1")}
    assert [*found.values()] == ["amazonaws.com", "amazonaws.com.cn", "amazonaws.eu"]


def test_hosts_and_projects_of_google():
    hosts = [Place("p", location).host for location in ("global", "eu", "us-central1")]
    assert hosts == [
        "aiplatform.googleapis.com",
        "aiplatform.eu.rep.googleapis.com",
        "us-central1-aiplatform.googleapis.com",
    ]
    env = {"ANTHROPIC_VERTEX_PROJECT_ID": "a", "CLOUD_ML_REGION": "us-east5"}
    assert place_of("", "", env, "v") == Place("a", "us-east5")
    assert place_of("", "", {"GOOGLE_CLOUD_PROJECT": "g", **env}, "v", "own").project == "g"
    assert place_of("", "", {}, "v", "own") == Place("own", "global")
    for project, location in (("a/b", ""), ("", "x.evil.com")):
        with pytest.raises(ConfigError, match="is not a"):
            place_of(project, location, {}, "v")


def test_other_publishers_of_vertex():
    place = Place("p", "us-central1")
    headers = {"openai-organization": "o", "a": "b"}
    chat = vertex_request(
        "openai_chat", HttpRequest("/chat/completions", b"{}", headers), place, {}
    )
    assert chat.path == "/v1/projects/p/locations/us-central1/endpoints/openapi/chat/completions"
    assert chat.headers == {"a": "b"}
    gpt = vertex_request("openai_responses", HttpRequest("/responses", b"{}"), place, {})
    assert gpt.path == "/v1/projects/p/locations/us-central1/publishers/openai/v1/responses"
    embed = HttpRequest("/v1beta/models/gemini-embedding-001:batchEmbedContents", b"{}")
    with pytest.raises(Unsupported, match="embeddings"):
        vertex_request("gemini", embed, place, {})


@pytest.mark.parametrize(
    ("env", "settings", "url"),
    [
        ({}, {"resource": "res"}, "https://res.openai.azure.com/openai/v1/chat/completions"),
        ({"AZURE_OPENAI_ENDPOINT": "https://x.cognitiveservices.azure.com/"}, {}, "https://x.cognitiveservices.azure.com/openai/v1/chat/completions"),
        ({"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/openai/v1/"}, {}, "https://x.openai.azure.com/openai/v1/chat/completions"),
        ({}, {"url": "http://127.0.0.1:9/proxy?team=a"}, "http://127.0.0.1:9/proxy/openai/v1/chat/completions?team=a"),
    ],
)  # fmt: skip
async def test_addresses_of_azure(env, settings, url):
    built_in = {"url": "https://{resource}.openai.azure.com"}
    config = ProviderConfig(api="openai_chat", cloud="azure", key="k", **{**built_in, **settings})
    sent = await AzureEndpoint("azure", config, env).sign(
        "openai_chat", "d", HttpRequest("/chat/completions", json.dumps({"model": "d"}).encode())
    )
    assert sent.url == url
    assert sent.headers == {"api-key": "k"}


def test_credentials_that_are_there_are_not_missing():
    def missing(cloud: str, env: dict[str, str], **settings):
        return missing_credentials(ProviderConfig(cloud=cloud, **settings), env)

    for cloud in ("bedrock", "mantle", "vertex", "azure", "foundry"):
        assert missing(cloud, {}, key="k") == ""
        assert missing(cloud, {}, token_command=("x",)) == ""
    assert missing("bedrock", {"AWS_ACCESS_KEY_ID": "a"}) == ""
    assert missing("azure", {"AZURE_OPENAI_AD_TOKEN": "a"}) == ""
    assert missing("vertex", {}, credentials_file="x") == ""
