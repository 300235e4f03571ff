"""Stripe's events over HTTP: one row each, and nothing for what Stripe did not sign."""

from datetime import UTC, datetime

import sqlalchemy as sa

from hermesops.store.registry.schema.tables import billing_events
from tests.support.users.api import STRIPE, Client, UsersApi


async def test_an_event_of_stripes_is_a_row_and_another_is_none(api: UsersApi, ada: Client) -> None:
    body = b'{"id": "evt_1"}'
    signature = STRIPE.signature(body, at=datetime.now(UTC))
    for sent, header, status in ((body, signature, 204), (body + b" ", signature, 401), (body, "", 401)):
        answer = await ada.http.post("/webhooks/stripe/hermes", content=sent, headers={"stripe-signature": header})
        assert answer.status_code == status, answer.text
    with api.all_rows.reading() as connection:
        rows = connection.execute(sa.select(billing_events.c.body, billing_events.c.signature)).all()
    assert [(bytes(row.body), row.signature) for row in rows] == [(body, signature)]
