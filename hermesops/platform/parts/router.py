"""Role ``hermes_platform_llm_router``: the platform's model router, its keys and its certificate for the database."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.access.secrets.catalog import PROVIDERS_KEY
from hermesops.access.secrets.store import Secrets
from hermesops.errors import RefusedError
from hermesops.localcloud.world.files import PROVIDER_KEY, WorldFiles, key_of, read_object
from hermesops.model.billing.route import ROUTES
from hermesops.platform.host import CertificatePairs, HostAddress
from hermesops.programs.model_router import build
from hermesops.settings.sections import ModelSettings

ROUTER = "hermesops-router"
"""Name in the certificate by which the router reaches the registry."""

_CERTIFICATE = "/etc/hermes-platform/secrets/router/database.crt"
PROVIDERS = tuple(dict.fromkeys(route.provider for route in ROUTES))


@dataclass(frozen=True)
class RouterPart:
    """Role ``hermes_platform_llm_router``: LiteLLM, and hermes-router before it.

    Args:
        wheels: Makes the archive that LiteLLM is installed from; blocks.
        program: Where the program hermes-router is written for the role.
        token_keys: Keys that sign agents' tokens, the newest first.
        provider_keys: Keys of model providers, at least one.
        provider_urls: URLs in the place of the providers' own.
    """

    wheels: Callable[[], Path]
    program: Path
    token_keys: Callable[[], tuple[str, ...]]
    provider_keys: Mapping[str, str] = field(repr=False)
    provider_urls: Mapping[str, str]
    role: str = "hermes_platform_llm_router"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role. Writes the router's program; adds a certificate unless the host's is good."""
        del at
        certificate, key = await pairs.client(ROUTER, _CERTIFICATE)
        self.program.parent.mkdir(parents=True, exist_ok=True)
        build.write(self.program)
        return {
            "wheels": await asyncio.to_thread(self.wheels),
            "program": self.program,
            "token_keys": list(self.token_keys()),
            "provider_keys": dict(self.provider_keys),
            "provider_urls": dict(self.provider_urls),
            "certificate": certificate,
            "key": key,
        }


def parse_provider_keys(text: str, where: str) -> dict[str, str]:
    """Keys of model providers, a line ``PROVIDER=KEY`` each.

    Raises:
        RefusedError: A line is none, or names a provider that no route has.
    """
    keys: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        provider, is_there, key = line.partition("=")
        if not line.strip() or line.startswith("#"):
            continue
        if not is_there or not key.strip() or provider.strip() not in PROVIDERS:
            known = ", ".join(PROVIDERS)
            raise RefusedError(f"line {number} of {where} is not PROVIDER=KEY with one of {known}")
        keys[provider.strip()] = key.strip()
    return keys


def provider_keys_of(
    model: ModelSettings, secrets: Secrets, world: WorldFiles
) -> tuple[dict[str, str], dict[str, str]]:
    """Keys of model providers, and URLs in the place of their own; without any, the local world's model is one.

    Raises:
        RefusedError: As ``parse_provider_keys``.
    """
    text = secrets.find(PROVIDERS_KEY)
    if text:
        return parse_provider_keys(text, secrets.where(PROVIDERS_KEY)), {}
    if model.base_url and model.api_key:
        return {"openai": model.api_key.get_secret_value()}, {"openai": model.base_url}
    url = (read_object(world.world) or {})["model_base_url"]
    return {"openai": key_of(world.provider_key, PROVIDER_KEY)}, {"openai": url}
