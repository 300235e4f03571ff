"""The API of a model provider that an agent asks with its user's own key, in the place of the platform's router. Pure.

A machine gets what it has to write, not the id of a row in a table: machines of every age understand it.
"""

import re
from dataclasses import dataclass, field

from hermesops.wire.strict_json import exactly, mapping, matching

API_MODES = ("chat_completions", "codex_responses")
"""Forms of requests that agents speak without further packages. Source: ``_VALID_API_MODES`` in
``hermes_cli/runtime_provider.py`` of hermes-agent 0.19.0; the others need a vendor's own package."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_HOST = r"https://[a-z0-9.-]{4,253}"
_OF_WORLD = r"http://(?:10|127|172|192)(?:\.[0-9]{1,3}){3}:[0-9]{1,5}"
"""A stand-in in a local world's own network, which machines reach as they reach its router there."""

_URL = re.compile(rf"(?:{_HOST}|{_OF_WORLD})(?:/[A-Za-z0-9._~-]{{1,64}}){{0,8}}")
_MODE = re.compile("|".join(API_MODES))
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_KEY = re.compile(r"[A-Za-z0-9._~+/=:-]{8,512}")


@dataclass(frozen=True)
class ModelEndpoint:
    """Where an agent asks for answers, and as whom.

    Attributes:
        provider: Id of the provider, for reports.
        base_url: With the API's version.
        api_mode: One of ``API_MODES``.
    """

    provider: str
    base_url: str
    api_mode: str
    model: str
    key: str = field(repr=False)

    @classmethod
    def parse(cls, raw: object) -> "ModelEndpoint":
        """Check the fields of an endpoint.

        Raises:
            BadRequestError: A field is wrong; the message names it, never its value.
        """
        fields = mapping(raw, "settings.endpoint")
        exactly(fields, "settings.endpoint", required={"provider", "base_url", "api_mode", "model", "key"})
        shapes = {"provider": _NAME, "base_url": _URL, "api_mode": _MODE, "model": _MODEL, "key": _KEY}
        return cls(
            **{name: matching(fields[name], shape, f"settings.endpoint.{name}") for name, shape in shapes.items()}
        )
