"""hermes-agent 0.19.0 itself: its registry beside the table, what it makes of each choice, and a turn by a user's key.

The oracle is the agent's own code, run by its own Python, on the files that hermes-node writes.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hermesops.agents.instances.steps.personalise import endpoint_of
from hermesops.localcloud.vendors.model_provider import MODELS, PREFIX, LocalModelProvider
from hermesops.model.ids import InstanceId
from hermesops.model.providers.table import FOREIGN_SIGN_INS, PROVIDERS
from hermesops.programs.node.instance.agent.installation import Base
from hermesops.programs.node.instance.agent.installation import Route as ModelRoute
from hermesops.programs.node.instance.render import OWN_KEY_VARIABLE, managed_config, managed_environment
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.protocol import Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.real import gateway
from tests.support.real.python_environments import AGENT
from tests.support.suite.prerequisites import require
from tests.support.users.api import served
from tests.support.users.model_provider import choice_of

pytestmark = [pytest.mark.turns(75), pytest.mark.timeout(600)]

KEY = "sk-proj-0123456789abcdef0123456789abcdef"
BASE = Base("none", "none", "/nowhere", 8642, (ModelRoute("claude-haiku", 200_000),), (), {"agent": {}}, {}, {})

REGISTRY = """
import json
from hermes_cli.auth import PROVIDER_REGISTRY
print(json.dumps({row.id: [row.auth_type, row.inference_base_url] for row in PROVIDER_REGISTRY.values()}))
"""

RESOLVED = """
import json, os, sys
from hermes_cli import managed_scope
from hermes_cli.runtime_provider import _get_model_config, resolve_runtime_provider
from agent import auxiliary_client
from tools.environments.local import _is_hermes_internal_secret

def client(of):
    return [str(of.base_url).rstrip("/"), of.api_key]

answers = {}
for name in sorted(os.listdir(sys.argv[1])):
    folder = os.path.join(sys.argv[1], name)
    os.environ["HERMES_MANAGED_DIR"] = folder
    variables = dict(line.rstrip().split("=", 1) for line in open(os.path.join(folder, ".env")))
    os.environ.update({name: value.strip("'") for name, value in variables.items()})
    managed_scope.invalidate_managed_cache()
    runtime = resolve_runtime_provider()
    summaries, model = auxiliary_client._resolve_auto()
    provider, pictures, seeing = auxiliary_client.resolve_vision_provider_client()
    answers[name] = {
        "main": [runtime[part] for part in ("base_url", "api_key", "api_mode", "requested_provider")],
        "model": _get_model_config()["default"],
        "summaries": [*client(summaries), model],
        "pictures": [*client(pictures), seeing],
        "hidden": [name for name in variables if _is_hermes_internal_secret(name)],
    }
print(json.dumps(answers))
"""

AUTO = """
import json
from hermes_cli.runtime_provider import resolve_runtime_provider
runtime = resolve_runtime_provider()
print(json.dumps([runtime[part] for part in ("provider", "base_url", "api_key")]))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    python = AGENT.python()
    require(python, "uv, to install hermes-agent")
    assert python
    return python


def run(python: Path, home: Path, program: str, *words: str, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """The output of a program of the agent's own Python."""
    home.mkdir(exist_ok=True)
    kept = {"PATH": os.defpath, "HERMES_HOME": str(home), "HOME": str(home), "HERMES_DISABLE_LAZY_INSTALLS": "1"}
    done = subprocess.run(
        [str(python), "-P", "-c", program, *words],
        env={**kept, **variables},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def files_of(folder: Path, endpoint: ModelEndpoint) -> None:
    """Write the managed files of an agent with its user's own provider."""
    identity, secrets = Identity("i", "u", "light", "c1", 1), Secrets("a" * 64, "hm1.i.1." + "b" * 40)
    payload = Payload(identity, secrets, "https://10.0.0.1/v1", Settings(endpoint=endpoint))
    assert Payload.from_json(payload.to_json()) == payload, "a machine takes it"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_bytes(managed_config(BASE, payload))
    (folder / ".env").write_bytes(managed_environment(BASE, payload))


def family(host: str) -> str:
    """The registered part of a host, by which the agent's address and ours of one provider agree."""
    return ".".join(host.split(".")[-2:])


def test_each_provider_that_the_agent_knows_is_offered_or_said_to_be_none(python: Path, tmp_path: Path) -> None:
    known: Mapping[str, tuple[str, str]] = run(python, tmp_path / "home", REGISTRY)
    offered = {facts.agent_id for facts in PROVIDERS if facts.agent_id}
    elsewhere = {foreign.agent_id for foreign in FOREIGN_SIGN_INS}
    assert not offered & elsewhere
    # Neither is in its registry: one has code of its own, the other takes a file of an account.
    assert {*known, "openrouter", "vertex"} == offered | elsewhere
    for agent_id in offered - {"openrouter"}:
        kind, address = known[agent_id]
        ours = {family(facts.host) for facts in PROVIDERS if facts.agent_id == agent_id}
        assert kind == "api_key"
        assert family(urlsplit(address).hostname or "") in ours


def test_the_agent_asks_the_chosen_provider_with_that_key_also_for_summaries_and_pictures(
    python: Path, tmp_path: Path
) -> None:
    endpoints = {facts.id: endpoint_of(choice_of(facts)) for facts in PROVIDERS}
    for name, endpoint in endpoints.items():
        files_of(tmp_path / "managed" / name, endpoint)
    # Keys of other providers in the user's own file decide nothing.
    home = tmp_path / "home"
    home.mkdir()
    (home / ".env").write_text(f"OPENAI_API_KEY={KEY}\nOPENROUTER_API_KEY=sk-or-v1-of-the-file\n")
    answers = run(python, home, RESOLVED, str(tmp_path / "managed"))
    assert answers.keys() == endpoints.keys()
    for name, endpoint in endpoints.items():
        client = [endpoint.base_url, endpoint.key, endpoint.model]
        assert answers[name] == {
            "main": [endpoint.base_url, endpoint.key, endpoint.api_mode, "custom:own"],
            "model": endpoint.model,
            "summaries": client,
            "pictures": client,
            "hidden": [OWN_KEY_VARIABLE],
        }, name


def test_without_a_named_provider_the_agent_sends_a_key_of_openai_to_openrouter(python: Path, tmp_path: Path) -> None:
    """Older agents took it to Codex, which answers 401 to it; so does OpenRouter, which has then been given the key."""
    resolved = run(python, tmp_path / "home", AUTO, OPENAI_API_KEY=KEY)
    assert resolved == ["openrouter", "https://openrouter.ai/api/v1", KEY]


class Keyed:
    """Lets requests with the user's key through to the scripted model; records each request's path and model."""

    asked: tuple[str, ...] = ()

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_users = (b"authorization", f"Bearer {KEY}".encode()) in scope["headers"]
        Keyed.asked += (f"{scope['path']} {'own' if is_users else 'other'}",)
        if is_users:
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


async def respond(request: Request) -> Response:
    """Echo the last input as OpenAI's Responses API streams it."""
    body = await request.json()
    text = f"echo: {json.dumps(body['input'][-1])}"
    content = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}
    usage: dict[str, Any] = {"input_tokens": 7, "output_tokens": 7, "total_tokens": 14}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {"id": "resp_1", "object": "response", "created_at": 1, "model": body["model"], "output": [item]}
    whole |= {"status": "completed", "usage": usage, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "delta": text, "logprobs": [], **place},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    if not body.get("stream"):
        return JSONResponse(whole)
    lines = (
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
        for number, event in enumerate(events)
    )
    return Response("".join(lines), media_type="text/event-stream")


@pytest.fixture
async def provider_url() -> AsyncIterator[str]:
    Keyed.asked = ()
    routes = [*gateway.model().routes, Route("/v1/responses", respond, methods=["POST"])]
    async with served(Starlette(routes=routes, middleware=[Middleware(Keyed)])) as url:
        yield f"{url}/v1"


async def test_a_real_gateway_answers_a_turn_with_the_users_key(
    python: Path, provider_url: str, tmp_path: Path
) -> None:
    # The address is of loopback here, which no user may choose: see the tests of choices.
    endpoint = ModelEndpoint("custom", provider_url, "chat_completions", "my-model", KEY)
    settings, ada = Settings(endpoint=endpoint), InstanceId(str(uuid4()))
    nowhere = "http://127.0.0.1:9/v1"
    async with gateway.running(tmp_path / "agent", python, ada, nowhere, {}, settings=settings) as agent:
        assert "hello there" in await agent.answer("hello there")
        environment = await agent.answer("RUN: env | sort; cat $HERMES_HOME/logs/agent.log")
    paths = set(Keyed.asked)  # it also asks about the model's context, some of it without a key
    assert "/v1/chat/completions own" in paths
    assert "/v1/chat/completions other" not in paths
    assert "HERMES_EXEC_ASK=1" in environment
    assert KEY not in environment
    home = tmp_path / "agent"
    holders = [file for file in await asyncio.to_thread(lambda: list(home.rglob("*"))) if holds_key(file)]
    assert [file.relative_to(home).as_posix() for file in holders] == [".env"], "and in no file of the agent's own"


async def test_a_real_gateway_answers_in_the_form_of_responses(python: Path, provider_url: str, tmp_path: Path) -> None:
    settings = Settings(endpoint=ModelEndpoint("openai", provider_url, "codex_responses", "gpt-5.2", KEY))
    nowhere, ada = "http://127.0.0.1:9/v1", InstanceId(str(uuid4()))
    async with gateway.running(tmp_path / "agent", python, ada, nowhere, {}, settings=settings) as agent:
        answer = await agent.answer("hello there")
    assert answer.startswith("echo: ")
    assert "hello there" in answer
    assert "/v1/responses own" in Keyed.asked


async def test_a_real_gateway_answers_by_the_stand_in_of_a_local_world(python: Path, tmp_path: Path) -> None:
    keys = tmp_path / "own-provider.keys"
    keys.write_text(f"{KEY}\n")
    provider = LocalModelProvider(keys)
    async with served(Starlette(routes=[Mount(PREFIX, routes=provider.routes())])) as url:
        endpoint = ModelEndpoint("custom", f"{url}{PREFIX}", "chat_completions", MODELS[0], KEY)
        assert ModelEndpoint.parse(asdict(endpoint)) == endpoint, "a machine takes it"
        settings, ada, nowhere = Settings(endpoint=endpoint), InstanceId(str(uuid4())), "http://127.0.0.1:9/v1"
        async with gateway.running(tmp_path / "agent", python, ada, nowhere, {}, settings=settings) as agent:
            assert "hello there" in await agent.answer("hello there")
            keys.write_text("another-key\n")
            assert "YOU SAID" not in await agent.answer("and now")


def holds_key(file: Path) -> bool:
    return file.is_file() and KEY.encode() in file.read_bytes()
