"""Where vendors' reports go: to the addresses that vendors were told, or all to the door of the world's platform.

An operator tells each vendor an address once. Here ``stack up platform`` writes the door to a file of the world when
the platform begins to serve users, and stand-ins read that file for each report: a report keeps its path.
"""

import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from hermesops.base.network.http import blank_context, own_client
from hermesops.localcloud.world.files import read_users_door, write_object


@dataclass(frozen=True)
class UsersDoor:
    """The door of a platform, or none.

    Attributes:
        url: Its address, without a path; empty where reports go to the addresses that vendors were told.
        host: Name that requests ask for; empty for the one in the address.
        authorities: Certificates that it may be signed by, PEM; empty for an address without TLS.
    """

    url: str = ""
    host: str = ""
    authorities: str = ""

    def address_of(self, webhook: str) -> str:
        """The address at which reports for a webhook go; empty for none."""
        return f"{self.url}{urlsplit(webhook).path}" if self.url and webhook else webhook

    async def request(
        self,
        method: str,
        webhook: str,
        *,
        within_s: float,
        content: bytes | str | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request to a webhook.

        Args:
            webhook: Whole address that a vendor was told; at a door only its path counts.

        Raises:
            httpx.HTTPError: Nobody answers there, or without the certificate.
        """
        url = self.address_of(webhook)
        named = {**(headers or {}), **({"host": self.host} if self.host else {})}
        try:
            async with own_client(verify=self._context(), timeout=within_s) as http:
                return await http.request(method, url, content=content, params=params, headers=named)
        except ssl.SSLError as error:
            raise httpx.ConnectError(str(error)) from error

    def _context(self) -> ssl.SSLContext | None:
        if not self.authorities:
            return None
        context = blank_context()
        context.load_verify_locations(cadata=self.authorities)
        return context


def write_door(file: Path, door: UsersDoor) -> None:
    """Have the next report of each stand-in, and all after it, go to this door."""
    write_object(file, asdict(door))


def door_in(file: Path) -> UsersDoor:
    """The door in a file; none where there is no file.

    Raises:
        BrokenInvariantError: The file is damaged.
    """
    fields = read_users_door(file)
    return UsersDoor(*(str(fields.get(name, "")) for name in ("url", "host", "authorities")))
