"""A model provider whose key a user may bring. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

CHAT, RESPONSES = "chat_completions", "codex_responses"
"""Forms of requests that an agent speaks without further packages; names of hermes-agent's ``api_mode``."""


class KeyCheck(StrEnum):
    """How a provider is asked about a key, with one request."""

    MODELS = "models"
    """``GET /models``: its list of models needs the key."""
    KEY = "key"
    """``GET /key``: it describes the key."""
    TURN = "turn"
    """``POST /chat/completions`` for one token: its list of models is public, or there is none."""


class ModelNames(StrEnum):
    """How a provider names its models."""

    OWN = "own"
    """``NAME``."""
    VENDOR = "vendor"
    """``VENDOR/NAME``: it offers models of several vendors."""
    ANY = "any"


@dataclass(frozen=True)
class ModelProvider:
    """A provider of models.

    Attributes:
        id: The name by which users choose it; stable.
        agent_id: Its id in hermes-agent's ``PROVIDER_REGISTRY``; empty where it is in none.
        base_url: Address of its API, with the version; empty where each account has its own.
        example: A model of it.
        hosts: Endings of the hosts of accounts' own addresses.
        api_mode: Form of requests.
        check: How it is asked about a key.
        list_query: Query by which it lists all of its models at once.
        key_header: Header that holds the key in that request; the agent itself sends ``Authorization``.
        keys: Beginnings of its keys; empty for any.
        marks: Beginnings that keys of no other provider have.
        names: How it names models.
        families: Beginnings of models that it alone makes.
        note: What a user should know.
    """

    id: str
    title: str
    agent_id: str
    base_url: str
    example: str
    hosts: tuple[str, ...] = ()
    api_mode: str = CHAT
    check: KeyCheck = KeyCheck.MODELS
    list_query: str = ""
    key_header: str = "authorization"
    keys: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    names: ModelNames = ModelNames.OWN
    families: tuple[str, ...] = ()
    note: str = ""

    @property
    def host(self) -> str:
        """Host of its API; empty where each account has its own."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def needs_address(self) -> bool:
        """Whether a user has to give the address of their account."""
        return not self.base_url


@dataclass(frozen=True)
class ForeignSignIn:
    """A provider that hermes-agent knows and whose access nobody can bring as a key.

    Attributes:
        instead: What a user can do.
    """

    agent_id: str
    title: str
    why: str
    instead: str
