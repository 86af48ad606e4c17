"""Settings of providers in the clouds: AWS, Google Cloud and Azure.

`config.ProviderConfig` inherits them, so that they stand in the same `[providers.NAME]` table. Empty
settings are filled in from the variables that the vendors' own tools read.
"""

from typing import Literal

import msgspec


class CloudSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of a provider's settings that only clouds need."""

    cloud: Literal["", "bedrock", "mantle", "vertex", "azure", "foundry"] = ""
    """The cloud whose addresses, bodies and credentials the provider has."""
    apis: dict[str, str] = {}
    """Pattern of model names (`claude-*`) → the API of these models, where it is not `api`."""
    deployments: dict[str, str] = {}
    """Model name → its deployment (Azure), inference profile or ARN (AWS)."""
    region: str = ""
    """AWS: the region; unset for AWS_REGION or AWS_DEFAULT_REGION."""
    profile: str = ""
    """AWS: the profile of the shared configuration; needs the extra `aws`."""
    project: str = ""
    """Google Cloud: the project; unset for GOOGLE_CLOUD_PROJECT or that of the credentials."""
    location: str = ""
    """Google Cloud: the location; unset for GOOGLE_CLOUD_LOCATION, else `global`."""
    credentials_file: str = ""
    """Google Cloud: a service account's file; unset for GOOGLE_APPLICATION_CREDENTIALS."""
    resource: str = ""
    """Azure: the name of the resource, which is the first part of its host."""
    api_version: str = ""
    """Azure: the `api-version` of the older addresses (`/openai/deployments/…`); unset for `/openai/v1`."""
    token_command: tuple[str, ...] = ()
    """A command that prints a token, or JSON with one; it is run without a shell."""
