"""Asks a model provider about a user's key: one request, bounded in time and size, at an address that was judged.

Each host is asked at an address of the internet, also those of the table: a resolver is believed nothing. No proxy is
used, as a proxy would resolve the name anew. Source: OpenAI's API reference (``/models``, ``/chat/completions``),
OpenRouter's (``/key``); Anthropic's and Azure's headers.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import structlog

from hermesops.base.foreign_json import in_thread
from hermesops.base.network.http import own_client
from hermesops.base.network.public_hosts import NotPublicError, PublicNetwork
from hermesops.model.providers.choice import ProviderChoice
from hermesops.model.providers.provider import KeyCheck
from hermesops.wire import strict_json

WITHIN_S = 15.0
LONGEST_ANSWER = 1 << 20
"""Bytes; a list of 400 models is some 100 KiB."""

_TOKENS = 16
"""Of the answer that is asked for; some providers refuse fewer."""

_MOST_MODELS = 20_000
_PATHS = {
    KeyCheck.MODELS: ("GET", "/models"),
    KeyCheck.KEY: ("GET", "/key"),
    KeyCheck.TURN: ("POST", "/chat/completions"),
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ProviderReply:
    """The answer of a provider.

    Attributes:
        status: Of HTTP; 0 where there was no answer.
        body: Its JSON; ``None`` where it is none, or too long.
    """

    status: int
    body: Any = None

    @property
    def models(self) -> frozenset[str] | None:
        """Names in a complete list of models; ``None`` where the body is none."""
        entries = self.body.get("data") if isinstance(self.body, dict) else None
        if not isinstance(entries, list) or not 0 < len(entries) <= _MOST_MODELS or self.body.get("has_more") is True:
            return None
        names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
        return frozenset(name.removeprefix("models/") for name in names if isinstance(name, str))


@dataclass(frozen=True)
class ModelProviderClient:
    """Asks model providers.

    Attributes:
        world_address: Address of a local world's stand-in, which is asked in clear, as its machines ask it; empty for
            none.
    """

    network: PublicNetwork
    world_address: Callable[[], str] = lambda: ""

    async def ask(self, choice: ProviderChoice) -> ProviderReply:
        """Ask the chosen provider about the key, once; whatever fails on the way is no answer."""
        method, path = _PATHS[choice.facts.check]
        query = choice.facts.list_query if choice.facts.check is KeyCheck.MODELS else ""
        content = _question(choice) if method == "POST" else None
        try:
            async with (
                asyncio.timeout(WITHIN_S),
                self._stream(choice, method, f"{path}{query}", content) as response,
            ):
                return ProviderReply(response.status_code, await _body_of(response))
        except (NotPublicError, httpx.HTTPError, OSError, TimeoutError) as error:
            log.info("model_provider_does_not_answer", provider=choice.provider, why=type(error).__name__)
            return ProviderReply(0)

    @asynccontextmanager
    async def _stream(
        self, choice: ProviderChoice, method: str, path: str, content: bytes | None
    ) -> AsyncIterator[httpx.Response]:
        """Send the request to the judged address of the provider's host, or to a local world's stand-in."""
        parts, headers = urlsplit(choice.address), _headers(choice)
        if choice.address == self.world_address():
            async with (
                own_client(timeout=WITHIN_S, follow_redirects=False) as client,
                client.stream(method, f"{choice.address}{path}", content=content, headers=headers) as response,
            ):
                yield response
            return
        host, path = parts.hostname or "", f"{parts.path}{path}"
        async with self.network.stream(
            method, host, path, headers=headers, content=content, within_s=WITHIN_S
        ) as response:
            yield response


def _question(choice: ProviderChoice) -> bytes:
    message = {"role": "user", "content": "ping"}
    return json.dumps({"model": choice.model, "messages": [message], "max_tokens": _TOKENS}).encode()


def _headers(choice: ProviderChoice) -> dict[str, str]:
    header = choice.facts.key_header
    own = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json"}
    if header == "authorization":
        return {**own, "authorization": f"Bearer {choice.key}"}
    return {**own, header: choice.key, **({"anthropic-version": "2023-06-01"} if header == "x-api-key" else {})}


async def _body_of(response: httpx.Response) -> Any:  # noqa: ANN401 - JSON has no narrower type
    data = b""
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > LONGEST_ANSWER:
            return None
    try:
        return await in_thread(lambda: strict_json.parse(data, largest=LONGEST_ANSWER))  # it may be a stranger's server
    except strict_json.MalformedJSONError:
        return None
