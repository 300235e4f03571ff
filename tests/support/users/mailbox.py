"""A user's connected service, without the pages that lead to it."""

from uuid import uuid4

from hermesops.model.connections.connection import ConnectionState
from hermesops.model.fleet.instance import Instance
from hermesops.store.user_rows.connections import UserConnections
from hermesops.users.connections.decide import LINK
from tests.support.users.api import UsersApi


async def linked(api: UsersApi, instance: Instance, service: str) -> str:
    """An account that a user has connected; its id."""
    rows = UserConnections(api.all_rows)
    link = await api.vendor.link(instance.id, f"ac_{service}", "https://pages.test/callback")
    api.composio.agree(link.url)
    row = rows.begin(instance.user_id, instance.id, service, state=uuid4().hex, session="", life=LINK)
    assert row
    assert rows.got_link(row.id, link.account, link.expires_at)
    assert rows.move(row, ConnectionState.CONFIRMED)
    confirmed = rows.get(row.id)
    assert confirmed
    await api.upkeep.settle(confirmed)
    return link.account
