"""A platform without a machine of its own: its links, and that its users are served once it is up."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.api.server import Server
from hermesops.base.waiting import cancel
from hermesops.errors import UnavailableError
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.model.stack import StackRef, UpResult
from hermesops.platform.aws import served
from hermesops.platform.stack import PlatformStack
from tests.support.fakes.parts import part

LINKS = {"api": "https://app.example/api/hermes", "chat_page": "https://app.example/hermes-max/chat"}


def stack(outputs: Mapping[str, Any], urls: list[str]) -> PlatformStack:
    """A stack that is up at once, with these outputs."""

    async def up(ref: StackRef, *_: object, **__: object) -> UpResult:
        return UpResult(ref, (), outputs)

    async def stacks(project: str) -> list[StackRef]:
        return [StackRef(project, "staging")]

    async def kept(_: StackRef) -> Mapping[str, Any]:
        return outputs

    async def program(_: object) -> Any:  # noqa: ANN401 - a program of Pulumi
        return lambda: None

    async def serves(url: str) -> None:
        urls.append(url)

    @asynccontextmanager
    async def lease(_: str) -> AsyncIterator[Any]:
        async def guard(work: Any) -> Any:  # noqa: ANN401 - as above
            return await work

        yield part(guard=guard)

    async def export(_: StackRef) -> Mapping[str, Any]:
        return {}

    engine = part(up=up, stacks=stacks, outputs=kept, export=export)
    return PlatformStack("staging", lambda: engine, program, part(), lease, print, serves=serves)


async def test_a_platform_that_serves_users_says_where_once_it_answers() -> None:
    urls: list[str] = []

    done = await stack({"links": LINKS, "region": "eu-central-1"}, urls).up_alone()

    assert (done.links, urls) == (LINKS, [LINKS["api"]])


@pytest.mark.parametrize("outputs", [{}, {"links": {}}])
async def test_one_that_serves_none_is_not_asked(outputs: Mapping[str, Any]) -> None:
    urls: list[str] = []

    done = await stack(outputs, urls).up_alone()

    assert (dict(done.links), urls) == ({}, [])


@pytest.mark.parametrize("links", [LINKS, {}])
async def test_it_says_so_later_too(links: Mapping[str, str]) -> None:
    services = {field.name: f"{field.name} of staging" for field in fields(PlatformOutputs)}
    addresses = await stack({**services, "links": dict(links)}, []).addresses()
    assert (addresses[0].by_name(), addresses[1]) == (services, links)


@asynccontextmanager
async def door(*answers: int) -> AsyncIterator[tuple[str, list[str]]]:
    """A door on loopback that answers so, the last answer for ever; its URL, and the paths that were asked for."""
    left, paths = list(answers), list[str]()

    async def answer(request: Request) -> Response:
        paths.append(request.url.path)
        return JSONResponse({}, left.pop(0) if len(left) > 1 else left[0])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/hermes"
        application = Starlette(routes=[Route("/{path:path}", answer)])
        serving = asyncio.ensure_future(Server(application, listener).serve_until_cancelled())
        try:
            yield url, paths
        finally:
            await cancel(serving)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "_LOOK_S", 0.01)


async def test_users_are_served_once_the_api_says_so_under_its_public_name() -> None:
    lines: list[str] = []
    async with door(503, 421, 200) as (url, paths):
        await served.wait_until_served(lines.append, url)

    assert paths == ["/health"] * 3
    assert lines == [f"waiting for {url.removesuffix('/api/hermes')}/health"]


async def test_a_door_that_does_not_answer_in_time_is_told_with_the_runbook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "_ANSWERS_S", 0.2)
    async with door(503) as (url, _):
        with pytest.raises(UnavailableError, match="it answers 503") as caught:
            await served.wait_until_served(print, url)
    assert "users-on-aws" in str(caught.value.hint)
    with pytest.raises(UnavailableError, match="ConnectError"):
        await served.wait_until_served(print, url)
