"""Agents of others that call ada's agent, by JSON-RPC and by REST, with the key that she made for each."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import httpx

from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, until
from tests.support.users.api import Client, Process, UsersApi

_NUMBERS = count(1)


def message(text: str, **more: object) -> dict[str, Any]:
    return {"role": "ROLE_USER", "messageId": f"m{uuid4().hex}", "parts": [{"text": text}], **more}


@dataclass
class CallingAgent:
    """A caller with its key.

    Attributes:
        path: Of the agent that it calls.
        version: Of the protocol, as its requests name it; empty for none.
    """

    http: httpx.AsyncClient
    path: str
    key: str
    id: str = ""
    version: str = "1.0"
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        version = {"a2a-version": self.version} if self.version else {}
        return {"authorization": f"Bearer {self.key}", **version, **self.extra}

    async def post(self, body: object, path: str = "/") -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {**self.headers, "content-type": "application/json"}
        return await self.http.post(f"{self.path}{path}", content=content, headers=headers)

    async def get(self, path: str, **query: str) -> httpx.Response:
        return await self.http.get(f"{self.path}{path}", params=query, headers=self.headers)

    async def call(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Call a method of JSON-RPC; the whole answer."""
        answer = await self.post(rpc(method, params))
        assert answer.status_code == 200, (answer.status_code, answer.text)
        document: dict[str, Any] = answer.json()
        return document

    async def result(self, method: str, params: Mapping[str, object]) -> Any:  # noqa: ANN401 - JSON
        document = await self.call(method, params)
        assert "error" not in document, document
        return document["result"]

    async def code(self, method: str, params: Mapping[str, object]) -> int:
        document = await self.call(method, params)
        assert "error" in document, document
        return int(document["error"]["code"])

    async def send(self, text: str, **more: object) -> dict[str, Any]:
        """Send a message and wait; its task."""
        task: dict[str, Any] = (await self.result("SendMessage", {"message": message(text, **more)}))["task"]
        return task

    @contextlib.asynccontextmanager
    async def stream(self, method: str, params: Mapping[str, object]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The results of a method that streams, as they come."""
        async with self.http.stream(
            "POST", f"{self.path}/", json=rpc(method, params), headers=self.headers
        ) as response:
            yield _results(response)


def rpc(method: str, params: Mapping[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": next(_NUMBERS), "method": method, "params": params}


async def _results(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            document = json.loads(line.removeprefix("data:"))
            assert "error" not in document, document
            yield document["result"]


async def make_caller(client: Client, name: str = "grace's agent", **more: object) -> dict[str, Any]:
    body = {"name": name, "client_key": f"k{uuid4().hex}", **more}
    answer = await client.ask("POST", "/callers", json=body)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


@contextlib.asynccontextmanager
async def calling_agent(
    api: UsersApi,
    ada: Client,
    *,
    process: Process | None = None,
    **more: Any,  # noqa: ANN401 - as a caller may be
) -> AsyncIterator[CallingAgent]:
    """A caller whom ada has given a key."""
    document = await make_caller(ada, **more)
    async with own_client(base_url=(process or api.process).url, timeout=30) as http:
        yield CallingAgent(http, f"/a2a/{api.ada.id}", str(document["key"]), document["caller"]["id"])


async def eventually(holds: Callable[[], object], what: str) -> None:
    async def check() -> bool | Pending[bool]:
        return True if holds() else Pending("not yet")

    await until(check, what=what, timeout_s=20, every_s=0.01)


def texts(task: Mapping[str, Any]) -> str:
    """The answer of a task."""
    parts: Sequence[Mapping[str, str]] = task["artifacts"][0]["parts"]
    return "".join(part["text"] for part in parts)
