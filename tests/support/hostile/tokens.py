"""Proxy tokens for readers of hostile answers: no vendor is asked for one."""

from collections.abc import Awaitable, Callable

from hermesops.model.ids import MachineId
from hermesops.vendor.justavps import ProxyAnswer


class NoTokens:
    """The same word for every machine."""

    async def token(self, *_machine_id: MachineId, **_purpose: str) -> str:
        """The word."""
        return "t"

    async def use(
        self, *_machine_id: MachineId, call: Callable[[str], Awaitable[ProxyAnswer]], **_purpose: object
    ) -> ProxyAnswer:
        """What a call with it brings."""
        return await call("t")
