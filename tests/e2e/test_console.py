"""The console of a simulated world: a restart is the command's, in its preview, its steps and its audit entries."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from playwright.async_api import Page, expect

from hermesops.app import Container
from hermesops.base.waiting import Pending, until
from hermesops.console.routes.asking import QUESTIONS
from hermesops.console.topics.listings import LISTINGS
from hermesops.model.operation import OperationStatus
from tests.support.pages.browser import DESK, PHONE, Scheme, WatchedPage, chromium, watched_page
from tests.support.pages.console import OWN, console_client, container_of, served_console
from tests.support.pages.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.turns(60)


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("console"), driver="sim") as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


@pytest.fixture
def container(world: Command) -> Container:
    return container_of(world.environ)


@pytest.fixture
async def client(container: Container) -> AsyncIterator[httpx.AsyncClient]:
    async with console_client(container) as client:
        yield client


def page_of(container: Container, user: str) -> str:
    return f"/console/instances/{container.instances.find(user).id}"


async def ended(container: Container, operation_id: str) -> OperationStatus:
    async def look() -> OperationStatus | Pending[OperationStatus]:
        status = container.operation_directory.get(operation_id).status
        return status if status.has_ended else Pending(status.value)

    return await until(look, what=operation_id, timeout_s=60, every_s=0.1)


def audit_of(container: Container, operation_id: str, who: str) -> list[tuple[str, ...]]:
    """Actions, reasons and new values of an operation's entries, without its id; all of them are by ``who``."""
    history = container.operation_directory.history(operation_id)
    entries = [entry for entry in history.audit if operation_id in f"{entry.why}{entry.after}"]
    assert {entry.who for entry in entries} == {who}
    before = str(history.operation.intent["before"])
    return [
        tuple(str(value).replace(operation_id, "ID").replace(before, "BEFORE") for value in values)
        for values in ((entry.action, entry.why, dict(entry.after)) for entry in entries)
    ]


async def test_a_restart_is_the_commands(world: Command, container: Container, client: httpx.AsyncClient) -> None:
    dry = (await world.ok("instance", "restart", "ada", "--dry-run", "--json")).json
    path = f"{page_of(container, 'ada')}/change/restart"
    preview = (await client.get(path)).text
    steps = re.findall(r"<li>(.*?) <span", preview)
    assert steps == [step["step"] for step in dry["steps"]] != []
    assert "hermesops instance restart ada --reason WHY" in preview

    by_command = (await world.ok("instance", "restart", "ada", "--reason", "a test", "--json")).json
    response = await client.post(path, data={"reason": "a test"}, headers=OWN)
    operation_id = response.headers["hx-redirect"].rpartition("/")[2]
    assert await ended(container, operation_id) is OperationStatus.DONE
    by_page = container.operation_directory.get(operation_id)
    assert by_page.outcome == by_command["outcome"]
    command_steps, page_steps = (
        [step.step for step in container.operation_directory.history(id_).steps]
        for id_ in (by_command["operation_id"], operation_id)
    )
    assert page_steps == command_steps
    assert by_page.intent["reason"] == "a test"
    actor = container.registry.actor
    assert audit_of(container, operation_id, f"{actor} via console") == audit_of(
        container, by_command["operation_id"], actor
    )

    shown = (await client.get(response.headers["hx-redirect"])).text
    assert all(step in shown for step in page_steps)
    timeline = (await client.get(f"{page_of(container, 'ada')}/timeline")).text
    assert f"{actor} via console" in timeline


async def test_a_refusal_is_shown_with_the_hint_and_nothing_is_opened(
    world: Command, container: Container, client: httpx.AsyncClient
) -> None:
    await world.ok("provision", "bob", "--plan", "light")
    await world.ok("instance", "suspend", "bob", "--reason", "a test")
    before = container.operation_directory.list(ended=True)
    refused = (await world.run("instance", "restart", "bob", "--dry-run")).stderr
    path = f"{page_of(container, 'bob')}/change/restart"
    page = await client.get(path)
    message = refused.partition("error: ")[2].partition("\n")[0]
    assert message
    assert message in page.text
    assert '<form class="change"' not in page.text
    response = await client.post(path, data={"reason": "a test"}, headers=OWN)
    assert (response.status_code, message in response.text) == (409, True)
    assert (await client.post(path, data={"reason": " "}, headers=OWN)).status_code == 422
    assert container.operation_directory.list(ended=True) == before


async def test_the_page_of_an_instance_has_its_machine(container: Container, client: httpx.AsyncClient) -> None:
    instance = container.instances.find("ada")
    page = (await client.get(page_of(container, "ada"))).text
    assert all(text in page for text in (instance.machine_name, "Backups", "Certificates of the machine", "good"))
    report = (await client.get(f"{page_of(container, 'ada')}/report")).text
    assert "ready" in report


_TOO_WIDE = """() => [...document.querySelectorAll("header, h1, table, form, dl, pre, code")]
    .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
    .map((node) => node.outerHTML.slice(0, 100))"""


@asynccontextmanager
async def browsing(
    container: Container, size: tuple[int, int] = DESK, scheme: Scheme = "light"
) -> AsyncIterator[tuple[WatchedPage, CuttingProxy]]:
    """Chromium at the fleet's page; afterwards it has broken no rule and has asked no other computer."""
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        url = await stack.enter_async_context(served_console(container))
        proxy = await stack.enter_async_context(cutting_proxy())
        watched = await stack.enter_async_context(watched_page(browser, proxy, size, scheme))
        await watched.page.goto(url)
        await expect(watched.page.get_by_role("heading", name="Fleet", exact=True)).to_be_visible()
        yield watched, proxy
        assert (watched.violations, watched.errors, proxy.foreign()) == ([], [], [])


async def focus(page: Page, name: str) -> None:
    """Press Tab until the link or button of that name has the focus."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        if name in await page.evaluate("document.activeElement.textContent"):
            return
    raise AssertionError(name)


def pages_of(container: Container, instance: str) -> list[str]:
    """One page of each template."""
    operation = f"/console/operations/{container.operation_directory.list(ended=True)[0].id}"
    return [
        *("/console/", "/console/instances", instance, "/console/operations", operation, "/console/rollouts"),
        *("/console/alerts", "/console/runbooks", "/console/runbooks/gateway-down", "/console/nowhere"),
        *(f"{instance}/change/{name}" for name in ("restart", "resize", "terminate", "back-up")),
        *("/console/change/start-rollout", "/console/change/freeze", "/console/more", "/console/approvals"),
        *("/console/runbooks/instance-suspended/change/run?instance=ada", "/console/cells/cell1"),
        *(f"/console/{name}" for name in (*LISTINGS, *QUESTIONS)),
        *("/console/bulk/suspend", "/console/batch"),
    ]


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (DESK, "light")])
async def test_each_page_is_usable_on_phones_and_desks(
    container: Container, size: tuple[int, int], scheme: Scheme
) -> None:
    instance = page_of(container, "ada")
    async with browsing(container, size, scheme) as (watched, _):
        origin, problems = watched.page.url.partition("/console/")[0], dict[str, list[str]]()
        for path in pages_of(container, instance):
            await watched.page.goto(f"{origin}{path}")
            await watched.page.wait_for_load_state("load")
            wrong = [*await watched.serious(), *await watched.page.evaluate(_TOO_WIDE)]
            if await watched.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append("too wide")
            problems |= {path: wrong} if wrong else {}
        assert problems == {}


async def test_a_keyboard_restarts_a_gateway_and_sees_each_step(container: Container) -> None:
    async with browsing(container) as (watched, _):
        page = watched.page
        await page.goto(f"{page.url.partition('/console/')[0]}{page_of(container, 'ada')}")
        await expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        await expect(page.locator("#report")).to_contain_text("ready")
        await focus(page, "Restart the gateway")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Preview")).to_be_visible()
        await focus(page, "Restart the gateway")
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.type("by keyboard")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/operations/*")
        await expect(page.locator("#live")).to_contain_text("done")
        await expect(page.locator("#live")).to_contain_text("via console")


async def test_a_page_says_that_it_is_stale_until_the_server_answers_again(container: Container) -> None:
    async with browsing(container) as (watched, proxy):
        stale = watched.page.get_by_text("Not updated: no answer from the server.")
        await expect(stale).to_be_hidden()
        proxy.is_away = True
        proxy.cut_all()
        await expect(stale).to_be_visible(timeout=6_000)
        proxy.is_away = False
        await expect(stale).to_be_hidden()


async def test_a_page_that_cannot_be_loaded_again_stays(container: Container) -> None:
    async with browsing(container) as (watched, _):
        page, clock = watched.page, watched.page.clock
        await clock.install()
        await page.reload()
        await page.route(re.compile("/console/$"), lambda route: route.fulfill(status=503, body="away"))
        async with page.expect_response(lambda response: response.status == 503):
            await clock.fast_forward("00:20")
        await expect(page.get_by_role("heading", name="In trouble")).to_be_visible()
        await page.unroute_all()
        before = await page.locator("#live").element_handle()
        await clock.fast_forward("00:20")
        await page.wait_for_function("(live) => !live.isConnected", arg=before)
        await expect(page.get_by_role("heading", name="In trouble")).to_be_visible()


async def test_a_page_shows_a_change_without_being_loaded_again(world: Command, container: Container) -> None:
    async with browsing(container) as (watched, _):
        page = watched.page
        await page.evaluate("window.isFirst = true")
        await world.ok("provision", "cleo", "--plan", "light")
        count = len(container.instance_list.read())
        await expect(page.locator("#count-all")).to_have_text(re.compile(rf"\b{count}$"))
        assert await page.evaluate("window.isFirst")


@asynccontextmanager
async def running(world: Command) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The command as a process, and the address that it printed."""
    command = replace(world, program=(sys.executable, "-m", "hermesops"))
    process = await command.start("console", "--no-browser")
    try:
        assert process.stdout
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_command_prints_an_address_that_counts_once(world: Command) -> None:
    async with running(world) as (process, url), httpx.AsyncClient(follow_redirects=True) as client:
        assert "<h1>Fleet</h1>" in (await client.get(url)).text
        assert (await client.get(url)).status_code == 403
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_restart_outlives_the_console(world: Command, container: Container, end: signal.Signals) -> None:
    async with running(world) as (process, url), httpx.AsyncClient() as client:
        await client.get(url)
        origin = url.partition("/?")[0]
        response = await client.post(
            f"{origin}{page_of(container, 'ada')}/change/restart",
            data={"reason": "a test"},
            headers={**OWN, "origin": origin},
            timeout=60,
        )
        process.send_signal(end)
        await process.wait()
    operation_id = response.headers["hx-redirect"].rpartition("/")[2]
    if not container.operation_directory.get(operation_id).status.has_ended:
        await world.ok("operation", "continue", operation_id)
    assert container.operation_directory.get(operation_id).status is OperationStatus.DONE
