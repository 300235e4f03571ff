"""Messengers: rows, the door for updates, links of accounts."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.app.users_container import RowsContainer, UsersContainer
    from hermesops.store.message_rows.accounts import MessengerAccounts
    from hermesops.store.message_rows.incoming import IncomingMessages
    from hermesops.store.message_rows.outgoing import OutgoingMessages
    from hermesops.users.messaging.door import SlackDoor, TelegramDoor
    from hermesops.users.messaging.handover import ConnectorHandover
    from hermesops.users.messaging.links import MessengerLinks


def messenger_accounts(container: "Container | RowsContainer") -> "MessengerAccounts":
    """Accounts of messengers that are linked to users."""
    from hermesops.store.message_rows.accounts import MessengerAccounts

    return MessengerAccounts(container.user_rows, container.messages)


def incoming_messages(container: "Container | RowsContainer") -> "IncomingMessages":
    """Messages of users in messengers."""
    from hermesops.store.message_rows.incoming import IncomingMessages

    return IncomingMessages(container.user_rows, container.messages)


def outgoing_messages(container: "RowsContainer") -> "OutgoingMessages":
    """Messages to users in messengers."""
    from hermesops.store.message_rows.outgoing import OutgoingMessages

    return OutgoingMessages(container.user_rows, container.messages)


def messenger_links(container: "Container | UsersContainer") -> "MessengerLinks | None":
    """Links of users' accounts; ``None`` where the platform has no bot."""
    from hermesops.users.messaging.links import MessengerLinks

    bots = container.env.settings.messengers.bots
    return MessengerLinks(container.messenger_accounts, bots) if bots else None


def connector_handover(container: "Container") -> "ConnectorHandover":
    """Makes the connector that machines are handed; the key is read once."""
    from functools import cache, partial

    from hermesops.access.secrets.catalog import CONNECTOR_KEY
    from hermesops.users.messaging.handover import ConnectorHandover

    tokens = container.registry.model_tokens
    return ConnectorHandover(
        container.env.settings.messengers,
        cache(partial(container.secrets.find, CONNECTOR_KEY)),
        lambda instance_id: tokens.get(instance_id).generation,
    )


def telegram_door(container: "Container | UsersContainer") -> "TelegramDoor | None":
    """Takes Telegram's updates; ``None`` where there is no secret of its webhook."""
    from functools import partial

    from hermesops.access.secrets.catalog import TELEGRAM_SECRET
    from hermesops.users.messaging.door import TelegramDoor
    from hermesops.users.messaging.secrets import webhook_secrets

    if container.secrets.find(TELEGRAM_SECRET) is None:
        return None
    return TelegramDoor(partial(webhook_secrets, container.secrets), container.incoming_messages.add)


def slack_door(container: "Container | UsersContainer") -> "SlackDoor | None":
    """Takes Slack's events; ``None`` where there is no signing secret."""
    from functools import partial

    from hermesops.access.secrets.catalog import SLACK_SECRET
    from hermesops.users.messaging.door import SlackDoor
    from hermesops.users.messaging.secrets import slack_secrets

    if container.secrets.find(SLACK_SECRET) is None:
        return None
    return SlackDoor(partial(slack_secrets, container.secrets), container.incoming_messages.add)
