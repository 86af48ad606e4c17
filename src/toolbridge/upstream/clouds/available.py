"""Whether a cloud's provider has credentials, as far as that is known without a request.

The gateway asks this for every provider when it starts, so that no other module of a cloud is loaded.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from toolbridge.config import ProviderConfig, secret


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
    """Return the variable to set where a cloud's provider has no credentials; empty if it has."""
    if provider_config.token_command or secret(provider_config.key, env):
        return ""
    match provider_config.cloud:
        case "vertex":
            found = find_file(provider_config.credentials_file, env) is not None
            return "" if found or _has("google.auth") else "GOOGLE_APPLICATION_CREDENTIALS"
        case "azure" | "foundry":
            found = bool(env.get("AZURE_OPENAI_AD_TOKEN")) or _has("azure.identity")
            return "" if found else "AZURE_OPENAI_API_KEY"
        case _:
            found = bool(env.get("AWS_ACCESS_KEY_ID")) or _has("botocore")
            return "" if found else "AWS_BEARER_TOKEN_BEDROCK"


def _has(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False
