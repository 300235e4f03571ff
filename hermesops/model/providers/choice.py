"""A user's choice of a model provider, checked before anything is saved. Pure.

Contradictions that providers answer with a bare 401 are refused here with what to do: a key of another provider, a
model of another, an address where the provider has its own. hermes-agent itself tries whatever key is there: with
``OPENAI_API_KEY`` alone and no named provider, 0.19.0 sends that key to OpenRouter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from hermesops.errors import Hint, UsageError
from hermesops.model.providers.provider import ModelNames, ModelProvider
from hermesops.model.providers.table import BY_ID, CUSTOM, FOREIGN_SIGN_INS, PROVIDERS

LONGEST_KEY, LONGEST_MODEL, LONGEST_ADDRESS = 512, 128, 256

_KEY = re.compile(rf"[A-Za-z0-9._~+/=:-]{{8,{LONGEST_KEY}}}")
_MODEL = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:/@+-]{{0,{LONGEST_MODEL - 1}}}")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]{1,64}){0,8}/?")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{4,253}}\Z){_LABEL}(?:\.{_LABEL}){{1,8}}")
_RESERVED = frozenset({"localhost", "local", "internal", "lan", "home", "test", "example", "invalid", "onion", "arpa"})
"""Last labels of names that are none of the internet. Source: RFC 6761, RFC 8375, ICANN's reservation of internal."""

_OTHER_SECRETS = {
    "sk-ant-oat": "a token of Claude's sign-in",
    "sk-ant-admin": "an administrator's key of Anthropic",
    "ghp_": "a token of GitHub",
    "gho_": "a token of GitHub",
    "ghu_": "a token of GitHub",
    "ghs_": "a token of GitHub",
    "github_pat_": "a token of GitHub",
    "AKIA": "a key of AWS",
    "xoxb-": "a token of Slack",
    "xapp-": "a token of Slack",
    "sk_live_": "a key of Stripe",
    "hm1.": "a token of this platform",
}
"""Beginnings of secrets that are no keys of models, which must be sent to nobody."""


@dataclass(frozen=True)
class ProviderChoice:
    """A provider that a user chose for their agent.

    Attributes:
        provider: Its id.
        base_url: Address of the user's account or server; empty where the provider has its own.
        verified_at: When the provider accepted the key, in ISO 8601; empty where nobody knows.
    """

    provider: str
    model: str
    key: str = field(repr=False)
    base_url: str = ""
    verified_at: str = ""

    @property
    def facts(self) -> ModelProvider:
        """The provider's row of the table."""
        return BY_ID[self.provider]

    @property
    def address(self) -> str:
        """Address of the API that the agent asks."""
        return self.facts.base_url or self.base_url

    def without_key(self) -> "ProviderChoice":
        """The choice for whoever must not know the key."""
        return replace(self, key="")


def completed(
    before: ProviderChoice | None,
    provider: str,
    *,
    model: str,
    key: str = "",
    base_url: str = "",
    world_address: str = "",
) -> ProviderChoice:
    """Check a choice that may leave out what stays: model, key and address of the same provider.

    The key stays at its address only.

    Args:
        world_address: As of ``choose``.

    Raises:
        UsageError: As ``choose``; or the key is left out and there is none for this provider and address.
    """
    kept = before if before and before.provider == provider else None
    model = model or (kept.model if kept else "")
    if key:
        address = base_url or (kept.base_url if kept else "")
        return choose(provider, model=model, key=key, base_url=address, world_address=world_address)
    if kept is None or base_url.rstrip("/") not in {"", kept.base_url}:
        raise UsageError("give the key of this provider")
    return choose(provider, model=model, key=kept.key, base_url=kept.base_url, world_address=world_address)


def choose(provider: str, *, model: str, key: str, base_url: str = "", world_address: str = "") -> ProviderChoice:
    """Check a choice; whether the provider accepts the key is another question.

    Args:
        world_address: Address of a local world's stand-in, the one that may be none of the internet; empty for none.

    Raises:
        UsageError: A part is malformed, or contradicts another; the message never repeats the key.
    """
    facts = _known(provider)
    address = _address(facts, base_url.strip(), world_address)
    _check_key(facts, key)
    _check_model(facts, model)
    return ProviderChoice(facts.id, model, key, address)


def from_values(values: Mapping[str, object]) -> ProviderChoice:
    """A stored choice; its provider may be one that the table no longer has.

    Raises:
        TypeError: A field is missing, or there is one that this hermesops does not know.
    """
    return ProviderChoice(**{name: str(value) for name, value in values.items()})


def _known(provider: str) -> ModelProvider:
    if facts := BY_ID.get(provider):
        return facts
    listing = Hint(("instance", "model-providers"), "lists them")
    for foreign in FOREIGN_SIGN_INS:
        if provider == foreign.agent_id:
            raise UsageError(f"{foreign.title} cannot be used: {foreign.why}; {foreign.instead}", field="provider")
    by_agent = next((row.id for row in PROVIDERS if row.agent_id == provider), "")
    raise UsageError(
        f"there is no such model provider{f'; it is called {by_agent} here' if by_agent else ''}",
        hint=listing,
        field="provider",
    )


def _address(facts: ModelProvider, text: str, world_address: str) -> str:
    if not facts.needs_address:
        if text.rstrip("/") not in {"", facts.base_url}:
            raise UsageError(
                f"{facts.title} has an address of its own: leave yours out, or use custom", field="base_url"
            )
        return ""
    if world_address and facts.id == CUSTOM and text.rstrip("/") == world_address:
        return world_address
    return address_of(facts, text)


def address_of(facts: ModelProvider, text: str) -> str:
    """Check the address of a user's account or server.

    Raises:
        UsageError: It is none of the internet with https, or is one of a provider in the table.
    """
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise UsageError("the address is not a URL", field="base_url") from None
    if not text or len(text) > LONGEST_ADDRESS or parts.scheme != "https" or port not in {None, 443}:
        raise UsageError("give an address that begins with https://, on port 443", field="base_url")
    is_plain = text.isascii() and text.isprintable() and not (parts.username or parts.password)
    if not is_plain or parts.query or parts.fragment or "?" in text or "#" in text or not _PATH.fullmatch(parts.path):
        raise UsageError("the address must have no user, no query and only usual characters of a URL", field="base_url")
    if any(part in {".", ".."} for part in parts.path.split("/")):
        raise UsageError("the address must not have . or .. in its path", field="base_url")
    if not _is_name(host):
        raise UsageError("the address needs the name of a host on the internet, not a number", field="base_url")
    if facts.hosts and not host.endswith(facts.hosts):
        raise UsageError(f"addresses of {facts.title} end with {' or '.join(facts.hosts)}", field="base_url")
    for other in PROVIDERS:
        if other is not facts and (host == other.host or host.endswith(other.hosts)):
            raise UsageError(f"this is the address of {other.title}: choose {other.id}", field="base_url")
    return f"https://{host}{parts.path.rstrip('/')}"


def _is_name(host: str) -> bool:
    """Whether a text is the name of a host that may be on the internet."""
    last = host.rpartition(".")[2]
    return bool(_HOST.fullmatch(host)) and not last.isdigit() and last not in _RESERVED


def _check_key(facts: ModelProvider, key: str) -> None:
    for beginning, words in _OTHER_SECRETS.items():
        if key.startswith(beginning):
            raise UsageError(f"this is {words}, not a key of a model provider: create a key at the provider")
    owner = _owner(key)
    if owner and owner is not facts:
        raise UsageError(f"this is a key of {owner.title}: choose {owner.id}, or give a key of {facts.title}")
    if not _KEY.fullmatch(key):
        raise UsageError(f"a key must have 8 to {LONGEST_KEY} characters: letters, digits and ._~+/=:- only")
    if facts.keys and not key.startswith(facts.keys):
        raise UsageError(f"keys of {facts.title} begin with {' or '.join(facts.keys)}")


def _owner(key: str) -> ModelProvider | None:
    """The only provider whose keys begin as this one; the longest beginning counts."""
    owners = [(len(mark), facts) for facts in PROVIDERS for mark in facts.marks if key.startswith(mark)]
    return max(owners, key=lambda pair: pair[0])[1] if owners else None


def _check_model(facts: ModelProvider, model: str) -> None:
    if not _MODEL.fullmatch(model):
        raise UsageError(f"name a model of {facts.title}, as {facts.example}", field="model")
    vendor, slash, name = model.rpartition("/")
    if facts.names is ModelNames.VENDOR and not slash:
        raise UsageError(f"{facts.title} names models as VENDOR/NAME, as {facts.example}", field="model")
    if facts.names is ModelNames.OWN and slash:
        raise UsageError(f"{facts.title} names models without {vendor}/, as {facts.example}", field="model")
    maker = next((row for row in PROVIDERS if model.lower().startswith(row.families)), None)
    if facts.names is ModelNames.OWN and maker and maker is not facts:
        raise UsageError(
            f"{name or model} is a model of {maker.title}: choose {maker.id}, or a model as {facts.example}",
            field="model",
        )
