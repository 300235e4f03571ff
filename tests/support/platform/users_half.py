"""The users' half of a platform that is up, as a user meets it: sign-in, a turn, a connected service."""

import ssl
from collections.abc import Awaitable, Callable, Mapping

import httpx

from hermesops.base.waiting import Pending, until
from tests.support.real.commands.command import Command
from tests.support.users.api import Client
from tests.support.users.browser import Browser

_AGREED = {"agree": "yes"}


async def serves_users(
    command: Command, links: Mapping[str, str], on_machine: Callable[[str, str], Awaitable[str]]
) -> None:
    """Sign in as ada at the platform's door, get a turn answered, and connect a mailbox that her agent then uses.

    Args:
        links: As ``stack up platform`` prints them.
        on_machine: Runs a line as root on the machine of a name.
    """
    origin = links["chat_page"].partition("/hermes-max")[0]
    context = ssl.create_default_context(cafile=command.home / "local/platform/authorities.crt")
    async with httpx.AsyncClient(base_url=origin, verify=context, timeout=120, trust_env=False) as http:
        browser = Browser(http, origin)
        await browser.sign_in("ada")
        page = await browser.ask("GET", links["chat_page"])
        assert page.status_code == 200, page.text
        await _is_answered(browser, "the first message")
        await _is_connected(browser, http)
        machine = (await command.ok("instance", "show", "ada", "--json")).json["instance"]["machine_name"]

        async def knows_its_tools() -> bool | Pending[bool]:
            log = "grep -a connections /var/lib/hermes/logs/agent.log | tail -3"
            lines = await on_machine(machine, log)
            return True if "registered 1 tool" in lines else Pending(lines)

        await until(knows_its_tools, what="ada's agent to read her services' tools", timeout_s=240, every_s=2)
        await _is_answered(browser, "one more, after the agent's settings have changed")


async def _is_answered(browser: Browser, message: str) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = {"cookie": cookie, "origin": browser.origin, "x-hermes-request": "1", "sec-fetch-site": "same-origin"}
    client = Client(browser.http, headers)

    async def answered() -> bool | Pending[bool]:
        async with client.send(message) as events:
            kinds = [(event.kind, event.data) async for event in events]
        return True if kinds[-1][0] == "done" else Pending(str(kinds))

    await until(answered, what=f"an answer to {message!r}", timeout_s=120, every_s=2)


async def _is_connected(browser: Browser, http: httpx.AsyncClient) -> None:
    response = await browser.change("POST", "/connections/gmail")
    assert response.status_code == 200, response.text
    agreed = await http.post(response.json()["auth_url"], data=_AGREED)
    ended = await browser.ask("GET", agreed.headers["location"])
    assert ended.status_code == 303, ended.text
    listed = (await browser.ask("GET", f"{browser.origin}/api/hermes/connections")).json()
    assert {each["service"]: each["state"] for each in listed}["gmail"] == "active"
