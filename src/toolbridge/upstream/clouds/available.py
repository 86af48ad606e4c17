"""What a cloud's provider lacks, as far as that is known without a request, and how to set it.

The gateway asks this for every provider when it starts, so that no other module of a cloud is loaded.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from toolbridge.config import ProviderConfig, key_variable, secret

AWS_REMEDY = (
    "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `token_command`; "
    "for profiles, single sign-on and roles run `pip install '.[aws]'`"
)
GOOGLE_REMEDY = (
    "set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default login`, or set "
    "`token_command`; for the metadata server run `pip install '.[google]'`"
)
RESOURCES = {"azure": "AZURE_OPENAI_RESOURCE", "foundry": "ANTHROPIC_FOUNDRY_RESOURCE"}
"""Variables with the name of a resource of Azure."""
AZURE_ENDPOINT = "AZURE_OPENAI_ENDPOINT"
_REGION = re.compile(r"[a-z]{2,8}(?:-[a-z0-9]+)+-\d+")
_RESOURCE = re.compile(r"[A-Za-z0-9-]+")


def azure_remedy(variable: str) -> str:
    """Return how to set credentials of a resource whose key is in `variable`."""
    key = f"{variable}, or the provider's `key`" if variable else "the provider's `key`"
    return f"set {key}, or `token_command`; for Microsoft Entra ID run `pip install '.[azure]'`"


def find_file(given: str, env: Mapping[str, str]) -> Path | None:
    """Return the file with credentials: the configured one, or the one that Google's tools use."""
    if named := given or env.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return Path(named).expanduser()
    folder = env.get("CLOUDSDK_CONFIG") or (
        f"{env['HOME']}/.config/gcloud" if "HOME" in env else ""
    )
    usual = Path(folder) / "application_default_credentials.json"
    return usual if folder and usual.is_file() else None


def missing_credentials(provider_config: ProviderConfig, env: Mapping[str, str]) -> str:
    """Return which credentials a cloud's provider lacks and how to set them; empty if it has some."""
    if provider_config.token_command or secret(provider_config.key, env):
        return ""
    match provider_config.cloud:
        case "vertex":
            found = find_file(provider_config.credentials_file, env) is not None
            remedy = f"no credentials for Google Cloud; {GOOGLE_REMEDY}"
            return "" if found or _has("google.auth") else remedy
        case "azure" | "foundry":
            found = bool(env.get("AZURE_OPENAI_AD_TOKEN")) or _has("azure.identity")
            return "" if found else f"no key; {azure_remedy(key_variable(provider_config.key))}"
        case _:
            found = bool(env.get("AWS_ACCESS_KEY_ID")) or _has("botocore")
            return "" if found else f"no AWS credentials; {AWS_REMEDY}"


def missing_place(provider: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> str:
    """Return what is wrong with the region or resource of a cloud's provider; empty if nothing is.

    The project of Google Cloud is not checked: credentials have one.
    """
    match provider_config.cloud:
        case "bedrock" | "mantle":
            return region_problem(find_region(provider_config.region, env), provider)
        case "azure" | "foundry":
            return resource_problem(provider, provider_config, env)
        case _:
            return ""


def find_region(given: str, env: Mapping[str, str]) -> str:
    """Return the region of AWS: the configured one, or that of the environment."""
    return given or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""


def region_problem(region: str, provider: str) -> str:
    """Return what is wrong with a region of AWS, and the next step; empty if nothing is."""
    if _REGION.fullmatch(region):
        return ""
    what = f"{region!r} is not an AWS region" if region else "needs an AWS region"
    return (
        f'{what}; set `region` under [providers.{provider}], for example region = "us-east-1", or '
        "AWS_REGION"
    )


def is_resource(name: str) -> bool:
    """Return whether `name` can be the first part of a resource's host."""
    return _RESOURCE.fullmatch(name) is not None


def resource_problem(provider: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> str:
    """Return what is wrong with a resource of Azure, and the next step; empty if nothing is."""
    cloud = provider_config.cloud
    resource = provider_config.resource or env.get(RESOURCES[cloud], "")
    whole = cloud == "azure" and bool(env.get(AZURE_ENDPOINT))
    if "{resource}" not in provider_config.url or is_resource(resource) or whole:
        return ""
    what = f"{resource!r} is not the name of a resource" if resource else "needs a resource"
    host = provider_config.url.replace("{resource}", "NAME")
    shown = AZURE_ENDPOINT if cloud == "azure" else RESOURCES[cloud]
    return f"{what}; set `resource` under [providers.{provider}] (NAME in {host}), or {shown}"


@cache
def _has(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False
