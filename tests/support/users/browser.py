"""A browser as pages meet it: cookies, and the sign-in at the local issuer."""

import html
import re
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class Browser:
    """A browser: its cookies, and what it shows."""

    http: httpx.AsyncClient
    origin: str
    cookies: dict[str, str] = field(default_factory=dict)

    async def ask(self, method: str, url: str, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"cookie": cookie, **options.pop("headers", {})}
        answer = await self.http.request(method, url, headers=headers, **options)
        for line in answer.headers.get_list("set-cookie"):
            assert {"Path=/", "Secure", "HttpOnly", "SameSite=lax"} <= set(line.split("; ")), line
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
            if not self.cookies[name]:
                del self.cookies[name]
        return answer

    async def authorize(self, name: str = "ada") -> str:
        """Sign in at the issuer; the address it sends the browser back to."""
        begun = await self.ask("GET", f"{self.origin}/hermes-max/sign-in")
        assert begun.status_code == 303
        page = await self.http.get(begun.headers["location"])
        form = {key: html.unescape(text) for key, text in re.findall(r'name="([a-z_]+)" value="([^"]*)"', page.text)}
        user = re.search(rf'value="([^"]+)">Continue as {name}<', page.text)
        assert user, page.text
        chosen = await self.http.post(begun.headers["location"].partition("?")[0], data={**form, "user": user[1]})
        assert chosen.status_code == 303, chosen.text
        return chosen.headers["location"]

    async def sign_in(self, name: str = "ada") -> None:
        ended = await self.ask("GET", await self.authorize(name))
        assert (ended.status_code, ended.headers.get("location")) == (303, "/hermes-max/chat"), ended.text

    async def me(self, **headers: str) -> httpx.Response:
        return await self.ask("GET", f"{self.origin}/api/hermes/me", headers=headers)

    async def stop(self, **headers: str) -> httpx.Response:
        path = "/api/hermes/chat/turns/00000000-0000-4000-8000-000000000000/stop"
        return await self.ask(
            "POST", f"{self.origin}{path}", headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    async def change(self, method: str, path: str) -> httpx.Response:
        """A change as the page asks for it."""
        headers = {"origin": self.origin, "x-hermes-request": "1", "sec-fetch-site": "same-origin"}
        return await self.ask(method, f"{self.origin}/api/hermes{path}", headers=headers)
