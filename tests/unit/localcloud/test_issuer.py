"""The local world's issuer sends browsers back to this computer's pages, and to those of the world's platform."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from hermesops.localcloud.vendors.issuer import CLIENT, LocalIssuer

PAGES = "https://10.213.0.1:18091"


async def status(redirect_uri: str, pages: str) -> int:
    """The answer to a sign-in that is to end at an address."""
    issuer = LocalIssuer("http://127.0.0.1:1/issuer", tuple, pages=pages)
    app = Starlette(routes=[Mount("/issuer", routes=issuer.routes())])
    query = {
        "client_id": CLIENT,
        "response_type": "code",
        "redirect_uri": redirect_uri,
        "state": "s",
        "code_challenge": "c",
        "code_challenge_method": "S256",
    }
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:1") as http:
        return (await http.get("/issuer/authorize", params=query)).status_code


async def test_it_sends_browsers_back_to_the_platforms_pages() -> None:
    assert await status(f"{PAGES}/hermes-max/sign-in/callback", PAGES) == 200
    assert await status("http://localhost:8650/hermes-max/sign-in/callback", PAGES) == 200
    assert await status("http://localhost:8650/hermes-max/sign-in/callback", "") == 200


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://10.213.0.1/callback",
        "http://10.213.0.1:18091/callback",
        "https://10.213.0.1:18091.evil.test/callback",
        "https://10.213.0.1:18091@evil.test/callback",
        f"{PAGES}/callback?x=1",
        f"{PAGES}/callback#x",
        "https://evil.test/callback",
        "",
        "://",
    ],
)
async def test_it_sends_browsers_nowhere_else(redirect_uri: str) -> None:
    assert await status(redirect_uri, PAGES) == 400
    assert await status(f"{PAGES}/callback", "") == 400
