"""The script of the console's pages, in Chromium: what a stream names is shown, however late answers come."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import uvicorn
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.base.waiting import Pending, pause, until
from hermesops.console.routes.assets import ROUTES as ASSETS
from tests.support.pages.browser import chromium

pytestmark = pytest.mark.turns(20)


@dataclass
class Site:
    """A page about something that has a version, and its stream.

    Attributes:
        answer_s: Seconds that the answer with a page takes on its way.
        refuses: Pages that are refused, before one is given again.
        streams: Streams that are open.
    """

    version: int = 1
    answer_s: float = 0.0
    refuses: int = 0
    is_signed_out: bool = False
    streams: int = 0
    loads: list[int] = field(default_factory=list)

    async def page(self, _request: Request) -> Response:
        version = self.version
        self.loads.append(version)
        await pause(self.answer_s)
        if self.is_signed_out:
            return Response(status_code=401)
        if self.refuses:
            self.refuses -= 1
            return Response(status_code=503)
        return HTMLResponse(
            '<!doctype html><html lang="en"><head><title>x</title>'
            '<script src="/console/assets/htmx-2.0.11.min.js" defer></script>'
            '<script src="/console/assets/console.js" defer></script></head>'
            '<body data-now="2026-01-15T12:00:00Z" data-kind="operation" data-name="x"><p id="stale" hidden></p>'
            '<main><div id="failed"></div><div id="live" '
            f'data-digest="{version}">version {version}: <a href="#a">first</a> <a href="#b">second</a></div>'
            '<section id="part" hx-get="/console/part" hx-trigger="load" hx-target="this"><h2>Part</h2></section>'
            '<form hx-post="/console/act" hx-target="#outcome" hx-select="#problem"><button>Act</button></form>'
            '<div id="outcome"></div></main></body></html>'
        )

    async def part(self, _request: Request) -> Response:
        return HTMLResponse("<html><main><header></header><p id='problem'>no</p></main></html>", 503)

    async def act(self, _request: Request) -> Response:
        return Response(status_code=503)

    async def events(self, request: Request) -> Response:
        if self.is_signed_out:
            return Response(status_code=401)
        return StreamingResponse(self._events(int(request.query_params["digest"])), media_type="text/event-stream")

    async def has(self, come: Callable[[], bool]) -> None:
        """Wait until something holds."""

        async def look() -> bool | Pending[bool]:
            return True if come() else Pending(f"{self}")

        await until(look, what="the page comes to it", timeout_s=10, every_s=0.02)

    async def _events(self, shown: int) -> AsyncIterator[bytes]:
        self.streams += 1
        try:
            while not self.is_signed_out:
                if self.version != shown:
                    shown = self.version
                    yield b"event: change\ndata:\n\n"
                yield b"event: beat\ndata:\n\n"
                await pause(0.1)
        finally:
            self.streams -= 1


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[str]:
    app = Starlette(
        routes=[
            Route("/console/", site.page),
            Route("/console/events", site.events),
            Route("/console/part", site.part),
            Route("/console/act", site.act, methods=["POST"]),
            *ASSETS,
        ]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="h11", lifespan="off", log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/console/"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def opened(site: Site) -> AsyncIterator[Page]:
    async with chromium() as browser, served(site) as url:
        page = await browser.new_page()
        await page.goto(url)
        await expect(page.locator("#live")).to_contain_text("version 1")
        yield page
        await page.close()


async def see(page: Page, *, hidden: bool) -> None:
    """Say that the page's tab is in front, or behind another."""
    await page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


async def test_a_change_during_a_load_is_loaded_after_it() -> None:
    site = Site()
    async with opened(site) as page:
        site.answer_s, site.version = 0.8, 2
        await site.has(lambda: 2 in site.loads)
        site.version = 3
        await expect(page.locator("#live")).to_contain_text("version 3", timeout=5000)


async def test_a_page_that_cannot_be_loaded_again_is_tried_again_and_meanwhile_stale() -> None:
    site = Site()
    async with opened(site) as page:
        site.refuses, site.version = 3, 2
        await expect(page.locator("#stale")).to_be_visible(timeout=7000)
        await expect(page.locator("#live")).to_contain_text("version 2", timeout=20000)
        await expect(page.locator("#stale")).to_be_hidden()


async def test_a_tab_that_nobody_sees_has_no_stream_and_is_fresh_when_it_is_seen() -> None:
    site = Site()
    async with opened(site) as page:
        await see(page, hidden=True)
        await site.has(lambda: not site.streams)
        site.version = 2
        await pause(1.5)
        assert site.loads == [1]
        await see(page, hidden=False)
        await expect(page.locator("#live")).to_contain_text("version 2", timeout=3000)
        assert site.streams == 1


async def test_the_keyboard_stays_where_it_was_and_a_selection_is_kept_while_nothing_changes() -> None:
    site = Site()
    async with opened(site) as page:
        await page.get_by_role("link", name="second").focus()
        site.version = 2
        await expect(page.locator("#live")).to_contain_text("version 2")
        assert await page.evaluate("document.activeElement.textContent") == "second"
        await page.evaluate("getSelection().selectAllChildren(document.querySelector('#live a'))")
        loads = len(site.loads)
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await site.has(lambda: len(site.loads) > loads or site.streams == 1)
        assert await page.evaluate("getSelection().toString()") == "first"


async def test_an_answer_that_is_missing_is_said_where_it_was_asked_for() -> None:
    site = Site()
    async with opened(site) as page:
        await expect(page.locator("#part")).to_contain_text("Not loaded (503). Load again")
        assert await page.locator("main").count() == 1, "no page within a page"
        await page.get_by_role("button", name="Act").click()
        await expect(page.locator("#outcome")).to_contain_text("the change may have begun")


async def test_a_page_whose_session_has_ended_leads_to_the_sign_in() -> None:
    site = Site()
    async with opened(site) as page:
        site.is_signed_out = True
        await expect(page.locator("#stale")).to_contain_text("Signed out: sign in", timeout=9000)
        assert await page.get_by_role("link", name="sign in").get_attribute("href") == page.url
