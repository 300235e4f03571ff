"""Messengers: rows, the door for updates, links of accounts."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.container import Container
    from hermesops.app.users_container import RowsContainer, UsersContainer
    from hermesops.model.messaging.messenger import Messenger
    from hermesops.settings.sections import MessengerSettings
    from hermesops.store.message_rows.accounts import MessengerAccounts
    from hermesops.store.message_rows.agent_files import AgentFiles
    from hermesops.store.message_rows.incoming import IncomingMessages
    from hermesops.store.message_rows.outgoing import OutgoingMessages
    from hermesops.users.messaging.directory import MessageDirectory
    from hermesops.users.messaging.handover import ConnectorHandover
    from hermesops.users.messaging.inbound.door import DiscordDoor, SlackDoor, TelegramDoor, WhatsAppDoor
    from hermesops.users.messaging.inbound.links import MessengerLinks
    from hermesops.users.messaging.inbound.shared_bell import SharedBell
    from hermesops.users.messaging.registrations.bots import Bots, Registration


def messenger_accounts(container: "Container | RowsContainer") -> "MessengerAccounts":
    """Accounts of messengers that are linked to users."""
    from hermesops.store.message_rows.accounts import MessengerAccounts

    return MessengerAccounts(container.user_rows, container.messages)


def incoming_messages(container: "Container | RowsContainer") -> "IncomingMessages":
    """Rows of what users write in messengers, sealed with the key of messages."""
    from hermesops.store.message_rows.incoming import IncomingMessages

    return IncomingMessages(container.user_rows, container.messages)


def outgoing_messages(container: "Container | RowsContainer") -> "OutgoingMessages":
    """Rows of what is sent to users in messengers, sealed with the key of messages."""
    from hermesops.store.message_rows.outgoing import OutgoingMessages

    return OutgoingMessages(container.user_rows, container.messages)


def agent_files(container: "Container | RowsContainer") -> "AgentFiles":
    """Rows of files that agents send, sealed with the key of messages."""
    from hermesops.store.message_rows.agent_files import AgentFiles

    return AgentFiles(container.user_rows, container.messages)


def message_bell(container: "Container | RowsContainer") -> "SharedBell | None":
    """The bell by which processes hear of messages that others stored; ``None`` without a Redis."""
    web = container.env.settings.web
    if not web.redis_url:
        return None
    from hermesops.users.chat.redis_client import redis_client
    from hermesops.users.messaging.inbound.shared_bell import SharedBell

    return SharedBell(redis_client(web))


def messenger_links(container: "Container | UsersContainer") -> "MessengerLinks | None":
    """Links of users' accounts; ``None`` where the platform has no bot."""
    from hermesops.users.messaging.inbound.links import MessengerLinks

    bots = container.messenger_settings.bots
    return MessengerLinks(container.messenger_accounts, bots, container.link_addresses) if bots else None


def message_directory(container: "Container") -> "MessageDirectory":
    """Messages as operators list them, without their texts."""
    from hermesops.users.messaging.directory import MessageDirectory

    return MessageDirectory(container.registry)


def bots(container: "Container") -> "Bots":
    """The platform's bots, as operators check them; ``UnavailableError`` while the local world is down."""
    from hermesops.users.messaging import secrets as clients
    from hermesops.users.messaging.registrations.bots import Bots
    from hermesops.users.messaging.registrations.discord import DiscordRegistration
    from hermesops.users.messaging.registrations.slack import SlackRegistration
    from hermesops.users.messaging.registrations.telegram import TelegramRegistration
    from hermesops.users.messaging.registrations.whatsapp import WhatsAppRegistration

    settings, env, secrets = container.messenger_settings, container.env, container.secrets
    endpoint = container.endpoint
    origin = env.settings.web.origin or (endpoint.door_url or endpoint.users_url if env.is_local else "")

    def webhook(messenger: str) -> str:
        return f"{origin}/webhooks/{messenger}" if origin else ""

    telegram, slack = clients.telegram_bot(settings, secrets), clients.slack_bot(settings, secrets)
    whatsapp, discord = clients.whatsapp_bot(settings, secrets), clients.discord_bot(settings, secrets)
    registrations: tuple[Registration, ...] = (
        TelegramRegistration(settings.telegram_bot, telegram, secrets, webhook("telegram")),
        SlackRegistration(settings.slack_app, slack, secrets, webhook("slack")),
        WhatsAppRegistration(settings.whatsapp_number, whatsapp, secrets, webhook("whatsapp")),
        DiscordRegistration(settings.discord_app, settings.discord_public_key, discord, secrets, webhook("discord")),
    )
    return Bots(container.registry, tuple(each for each in registrations if each.bot))


def link_addresses(container: "Container") -> "Mapping[Messenger, str]":
    """Addresses that open the chat with a bot: those of the phone where a local world's stand-ins have the bots."""
    from hermesops.model.messaging.messenger import Messenger
    from hermesops.users.messaging.inbound.links import ADDRESSES

    if container.messenger_settings is container.env.settings.messengers:
        return ADDRESSES
    return {messenger: f"{container.endpoint.phone_url}#/{messenger}/{{code}}" for messenger in Messenger}


def messenger_settings(container: "Container") -> "MessengerSettings":
    """The bots, as the settings have them; those of a local world's stand-ins where they name none.

    Raises:
        UnavailableError: The local world is not up.
    """
    settings = container.env.settings.messengers
    if not container.env.is_local or settings.bots:
        return settings
    endpoint = container.endpoint
    if not endpoint.messengers:
        return settings
    agents_url = settings.agents_url or endpoint.door_url or endpoint.connector_url
    own = {**endpoint.messengers, "agents_url": agents_url}
    return settings.model_copy(update=own)


def connector_handover(container: "Container") -> "ConnectorHandover":
    """Makes the connector that machines are handed; the key is read once."""
    from functools import cache, partial

    from hermesops.access.secrets.catalog import CONNECTOR_KEY
    from hermesops.users.messaging.handover import ConnectorHandover

    return ConnectorHandover(
        container.messenger_settings,
        cache(partial(container.secrets.find, CONNECTOR_KEY)),
        lambda instance_id: container.registry.model_tokens.get(instance_id).generation,
    )


def telegram_door(container: "Container | UsersContainer") -> "TelegramDoor | None":
    """Takes Telegram's updates; ``None`` where there is no secret of its webhook."""
    from functools import partial

    from hermesops.access.secrets.catalog import TELEGRAM_SECRET
    from hermesops.users.messaging.inbound.door import TelegramDoor
    from hermesops.users.messaging.secrets import webhook_secrets

    if container.secrets.find(TELEGRAM_SECRET) is None:
        return None
    return TelegramDoor(partial(webhook_secrets, container.secrets), container.incoming_messages.add)


def slack_door(container: "Container | UsersContainer") -> "SlackDoor | None":
    """Takes Slack's events; ``None`` where there is no signing secret."""
    from functools import partial

    from hermesops.access.secrets.catalog import SLACK_SECRET
    from hermesops.users.messaging.inbound.door import SlackDoor
    from hermesops.users.messaging.secrets import slack_secrets

    if container.secrets.find(SLACK_SECRET) is None:
        return None
    return SlackDoor(partial(slack_secrets, container.secrets), container.incoming_messages.add)


def whatsapp_door(container: "Container | UsersContainer") -> "WhatsAppDoor | None":
    """Takes WhatsApp's reports; ``None`` where there is no secret of the app, or no key of its people's digests."""
    from functools import partial

    from hermesops.access.secrets.catalog import WHATSAPP_KEY, WHATSAPP_SECRET
    from hermesops.users.messaging.inbound.door import WhatsAppDoor
    from hermesops.users.messaging.messengers.whatsapp.read import Reader
    from hermesops.users.messaging.secrets import whatsapp_key, whatsapp_secrets

    settings, secrets = container.messenger_settings, container.secrets
    if not settings.whatsapp_phone or not secrets.find(WHATSAPP_SECRET) or not secrets.find(WHATSAPP_KEY):
        return None
    reader = Reader(settings.whatsapp_phone, whatsapp_key(secrets))
    return WhatsAppDoor(partial(whatsapp_secrets, secrets), container.incoming_messages.add, reader)


def discord_door(container: "Container | UsersContainer") -> "DiscordDoor | None":
    """Takes Discord's interactions; ``None`` where the application's public key is not set."""
    from hermesops.users.messaging.inbound.door import DiscordDoor

    key = container.messenger_settings.discord_public_key
    return DiscordDoor(key, container.incoming_messages.add) if key else None
