"""The platform's model router on loopback: LiteLLM as its lock has it, with our hooks, before scripted providers."""

import json
import secrets
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.base import waiting
from hermesops.base.waiting import pause
from hermesops.localcloud.server.listener import listen
from hermesops.programs.model_router import build
from hermesops.store.registry import Registry
from hermesops.store.registry.schema.role_grants import ROUTER
from tests.support.real.ends_with_us import KILLED
from tests.support.real.stores.postgresql import PostgreSql, as_role, make_role
from tests.support.real.stores.registries import registry_at

KEYS = {
    "anthropic": "sk-ant-canary-of-anthropic-0123456789",
    "openai": "sk-proj-canary-of-openai-0123456789",
    "gemini": "AIzaCanaryOfGemini0123456789",
}
_START_S = 180.0


@dataclass
class Providers:
    """Stand-ins for Anthropic, OpenAI and Gemini, each in its own shape.

    Attributes:
        acts: What each does next: ``ok``, ``slow`` (an answer in pieces), ``late`` (after two seconds), ``hang``,
            ``garbage``, ``cut`` (a stream that breaks off), ``drip`` (a byte now and then, for ever), or a status.
        asked: Providers in the order in which they were asked.
        keys: What each was shown as the platform's key.
        bodies: What each was sent.
    """

    url: str = ""
    acts: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def reset(self, **acts: str) -> None:
        """Begin anew; those that are not named answer."""
        self.acts, self.asked, self.bodies = dict(acts), [], []

    def app(self) -> Starlette:
        """Their paths, below the name of each."""
        return Starlette(
            routes=[
                Route("/anthropic/v1/messages", self._anthropic, methods=["POST"]),
                Route("/openai/chat/completions", self._openai, methods=["POST"]),
                Route("/gemini/{rest:path}", self._gemini, methods=["POST"]),
            ]
        )

    async def _act(self, provider: str, key: str, request: Request) -> Response | str:
        """What was asked, or the misbehaviour that it gets."""
        body = await request.json()
        self.asked.append(provider)
        self.keys[provider] = key
        self.bodies.append(body)
        act = self.acts.get(provider, "ok")
        if act.isdigit():
            words = f"refused, with {key} and {json.dumps(body)}"
            return JSONResponse({"error": {"message": words, "type": "x", "code": 1, "status": "X"}}, int(act))
        if act == "hang":
            await pause(3600)
        if act == "late":
            await pause(2)
        if act == "garbage":
            return Response(b"\x00<html>not what you think", media_type="application/json")
        return act

    async def _anthropic(self, request: Request) -> Response:
        act = await self._act("anthropic", request.headers.get("x-api-key", ""), request)
        if isinstance(act, Response):
            return act
        body = self.bodies[-1]
        if body.get("stream"):
            return StreamingResponse(_anthropic_stream(act, body["model"]), media_type="text/event-stream")
        block = {"type": "text", "text": "anthropic answers"}
        usage = {"input_tokens": 20, "output_tokens": 5}
        message = {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_reason": "end_turn",
        }
        return JSONResponse({**message, "content": [block], "usage": usage})

    async def _openai(self, request: Request) -> Response:
        act = await self._act("openai", request.headers["authorization"].removeprefix("Bearer "), request)
        if isinstance(act, Response):
            return act
        body = self.bodies[-1]
        if body.get("stream"):
            return StreamingResponse(_openai_stream(body["model"]), media_type="text/event-stream")
        message = {"role": "assistant", "content": "openai answers"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        completion = {"id": "c1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return JSONResponse({**completion, "choices": [choice], "usage": usage})

    async def _gemini(self, request: Request) -> Response:
        act = await self._act("gemini", request.headers.get("x-goog-api-key", ""), request)
        if isinstance(act, Response):
            return act
        content = {"role": "model", "parts": [{"text": "gemini answers"}]}
        usage = {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25}
        answer = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
        if "streamGenerateContent" in request.url.path:
            return Response(f"data: {json.dumps(answer)}\n\n", media_type="text/event-stream")
        return JSONResponse(answer)


async def _anthropic_stream(act: str, model: str) -> AsyncIterator[str]:
    def event(name: str, fields: Mapping[str, object]) -> str:
        return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n"

    usage = {"input_tokens": 20, "output_tokens": 1}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield event("message_start", {"message": message})
    yield event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    if act == "cut":
        yield event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "half an"}})
        raise RuntimeError("the provider's stream breaks off")
    while act == "drip":
        yield ":"
        await pause(0.5)
    for number in range(100 if act == "slow" else 2):
        yield event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": f"word {number} "}})
        if act == "slow":
            await pause(0.1)
    yield event("content_block_stop", {"index": 0})
    yield event("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}})
    yield event("message_stop", {})


async def _openai_stream(model: str) -> AsyncIterator[str]:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model}
    for piece in ("openai ", "answers"):
        delta = {"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}
        yield f"data: {json.dumps({**chunk, 'choices': [delta]})}\n\n"
    yield f"data: {json.dumps({**chunk, 'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})}\n\n"
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


@contextmanager
def scripted_providers() -> Iterator[Providers]:
    """Run them in a thread."""
    providers, socket = Providers(), listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(providers.app(), log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    providers.url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    try:
        yield providers
    finally:
        server.should_exit = server.force_exit = True
        thread.join(timeout=10)
        socket.close()


@dataclass
class RealRouter:
    """A running router.

    Attributes:
        url: With ``/v1``.
        metrics_url: Of its figures.
    """

    folder: Path
    url: str
    metrics_url: str
    secret: bytes
    command: list[str]
    process: "subprocess.Popen[bytes]" = field(init=False)

    @property
    def log(self) -> str:
        """What it said."""
        return (self.folder / "router.log").read_text(errors="replace")

    @property
    def metrics(self) -> str:
        """Its figures."""
        return httpx.get(self.metrics_url, trust_env=False, timeout=20).text

    def start(self) -> None:
        """Run it; returns once it answers."""
        with (self.folder / "router.log").open("ab") as log:
            self.process = subprocess.Popen([*KILLED, *self.command], stdout=log, stderr=log, cwd=self.folder, env={})
        health = self.url.removesuffix("/v1") + "/health"
        for _ in range(int(_START_S / 0.25)):
            assert self.process.poll() is None, self.log
            try:
                if httpx.get(health, trust_env=False, timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            waiting.pause_blocking(0.25)
        raise AssertionError(f"no answer of the router within {_START_S:g} s: {self.log}")

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(timeout=20)


@contextmanager
def running(
    folder: Path, interpreter: Path, database: str, providers: Providers, **settings: object
) -> Iterator[RealRouter]:
    """Run a router; gone afterwards."""
    kept, spool = folder / "secrets", folder / "spool"
    kept.mkdir(parents=True)
    spool.mkdir()
    secret = secrets.token_hex(32)
    for name, text in {**KEYS, "router.key": secret}.items():
        (kept / name).write_text(text)
    ports = [_free_port(), _free_port()]
    given = {
        "database": database,
        "spool": str(spool),
        "secrets": str(kept),
        "port": ports[0],
        "metrics_port": ports[1],
        "first_answer_s": 3,
        "whole_answer_s": 4,
        "bases": {name: f"{providers.url}/{name}" for name in KEYS},
        "limits": {"body_bytes": 2 << 20, "body_s": 3, "answer_s": 20, "at_once": 8},
        **settings,
    }
    (folder / "router.json").write_text(json.dumps(given))
    build.write(folder / "hermes-router.pyz")
    command = [str(interpreter), "-I", str(folder / "hermes-router.pyz"), str(folder / "router.json")]
    urls = f"http://127.0.0.1:{ports[0]}/v1", f"http://127.0.0.1:{ports[1]}/metrics"
    router = RealRouter(folder, *urls, secret.encode(), command)
    router.start()
    try:
        yield router
    finally:
        router.process.terminate()
        try:
            router.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            router.kill()


def _free_port() -> int:
    socket = listen("127.0.0.1", 0)
    try:
        return int(socket.getsockname()[1])
    finally:
        socket.close()


def as_router(url: str) -> str:
    """The URL of the same database for the router's own role."""
    return as_role(url, ROUTER)


@contextmanager
def registry_for_routers(server: PostgreSql) -> Iterator[tuple[Registry, str]]:
    """A registry in PostgreSQL whose router has a role of its own."""
    url = server.new_database()
    make_role(url, ROUTER)
    registry = registry_at(url)
    try:
        yield registry, url
    finally:
        registry.close()
