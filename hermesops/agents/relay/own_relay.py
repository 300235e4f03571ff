"""The relay inside a process that may hold what opens machines, as processes of a local world may."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermesops.access.pki.callers import Callers
from hermesops.agents.relay.client import RelayClient
from hermesops.agents.relay.credential import CallerCredential, Signed
from hermesops.agents.relay.serve import RelayService
from hermesops.base.waiting import cancel

_LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def own_relay(service: RelayService, callers: Callers, name: str, *, why: str) -> AsyncIterator[RelayClient]:
    """Run the relay on a port of loopback that this process's own certificate alone opens, while the block lasts.

    Args:
        name: Of the caller that this process is.
        why: Of its admission, for the audit log.
    """

    async def sign(request: str) -> Signed:
        admitted = await asyncio.to_thread(callers.admit, name, request, why=why)
        return Signed(admitted.certificate, admitted.authorities)

    with socket.create_server((_LOOPBACK, 0)) as listener:
        listener.setblocking(False)
        url = f"https://{_LOOPBACK}:{listener.getsockname()[1]}"
        serving = asyncio.ensure_future(service.serve(listener, [_LOOPBACK], grace_s=1))
        credential = CallerCredential(sign)
        try:
            yield RelayClient(lambda: url, credential.context)
        finally:
            await cancel(serving)
