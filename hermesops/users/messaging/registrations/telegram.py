"""The bot at Telegram, and the webhook that it should have."""

from dataclasses import dataclass, field

from hermesops.access.secrets.catalog import CONNECTOR_KEY, TELEGRAM_SECRET
from hermesops.access.secrets.store import Secrets
from hermesops.errors import HermesError, Hint, RefusedError, UnknownOutcomeError
from hermesops.model.check import Check, Verdict
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.telegram.send import TelegramBot, Webhook
from hermesops.users.messaging.registrations.steps import failed, kept, webhook_at
from hermesops.users.messaging.secrets import lines_of

_MOST_WAITING = 100
"""Updates that wait at Telegram before that is worth a look."""


@dataclass(frozen=True)
class TelegramRegistration:
    """The bot at Telegram, and the webhook that it should have.

    Attributes:
        bot: Its name, as the settings have it.
        webhook: Address of the users' API that takes updates; empty where it is not known.
    """

    bot: str
    client: TelegramBot
    secrets: Secrets = field(repr=False)
    webhook: str
    messenger: Messenger = Messenger.TELEGRAM

    async def check(self) -> list[Check]:
        """Ask Telegram for the bot and its webhook; a step that fails is a check that did."""
        try:
            name = await self.client.name()
        except (HermesError, UnknownOutcomeError) as error:
            return [*self._keys(), failed("telegram-token", error)]
        token = judged_name(name, self.bot)
        try:
            webhook = await self.client.webhook()
        except (HermesError, UnknownOutcomeError) as error:
            return [*self._keys(), token, failed("telegram-webhook", error)]
        return [*self._keys(), token, judged_webhook(webhook, self.webhook)]

    async def register(self) -> str:
        """Have Telegram send updates to the users' API, with the newest secret; returns the address.

        Raises:
            UsageError: The address of the users' API is not known.
            RefusedError: There is no secret, or Telegram does not take the token or the address.
            UnavailableError: Telegram does not answer.
        """
        webhook = webhook_at(self.webhook, "Telegram")
        secrets = lines_of(self.secrets.read(TELEGRAM_SECRET))
        if not secrets:
            hint = Hint(("secrets", "set", TELEGRAM_SECRET.name, "--from", "FILE"))
            raise RefusedError(f"the secret {TELEGRAM_SECRET.name} is empty", hint=hint)
        await self.client.set_webhook(webhook, secrets[0])
        return webhook

    def _keys(self) -> list[Check]:
        return kept(self.secrets, {"telegram-secret": TELEGRAM_SECRET, "connector-key": CONNECTOR_KEY})


def judged_name(name: str, bot: str) -> Check:
    """Whether the token is of the bot that the settings name. Pure."""
    if name == bot:
        return Check("telegram-token", Verdict.OK, f"Telegram takes it, for @{name}")
    hint = Hint(("settings", "set", "messengers.telegram_bot", name), "or another token")
    return Check("telegram-token", Verdict.FAILED, f"it is of @{name}, the settings name @{bot}", hint)


def judged_webhook(webhook: Webhook, expected: str) -> Check:
    """Whether Telegram sends updates to the users' API, and they are taken. Pure."""
    again = Hint(("messenger", "register", "telegram", "--reason", "WHY"))
    if not webhook.url:
        return Check("telegram-webhook", Verdict.FAILED, "Telegram has no address to send to", again)
    if expected and webhook.url != expected:
        return Check("telegram-webhook", Verdict.FAILED, f"Telegram sends to {webhook.url}, not to {expected}", again)
    if webhook.problem:
        hint = Hint(("api", "status"), "shows webhooks that were refused; a wrong secret ends with", *again.parts)
        return Check("telegram-webhook", Verdict.WARNING, f"the last update failed: {webhook.problem}", hint)
    if webhook.waiting > _MOST_WAITING:
        hint = Hint(("api", "status"))
        return Check("telegram-webhook", Verdict.WARNING, f"{webhook.waiting} updates wait at Telegram", hint)
    return Check("telegram-webhook", Verdict.OK, f"Telegram sends to {webhook.url}")
