"""The platform's bots as operators check them: whether a messenger takes the token, and where it sends reports."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hermesops.access.secrets.catalog import CONNECTOR_KEY, TELEGRAM_SECRET
from hermesops.access.secrets.store import Secrets
from hermesops.errors import HermesError, Hint, RefusedError, UnknownOutcomeError, UsageError, require_reason
from hermesops.model.check import Check, Verdict
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.registry import Registry
from hermesops.users.messaging.messengers.telegram.send import TelegramBot, Webhook
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
            return [*self._keys(), _failed("telegram-token", error)]
        token = judged_name(name, self.bot)
        try:
            webhook = await self.client.webhook()
        except (HermesError, UnknownOutcomeError) as error:
            return [*self._keys(), token, _failed("telegram-webhook", error)]
        return [*self._keys(), token, judged_webhook(webhook, self.webhook)]

    async def register(self) -> str:
        """Have Telegram send updates to the users' API, with the newest secret; returns the address.

        Raises:
            UsageError: The address of the users' API is not known.
            RefusedError: There is no secret, or Telegram does not take the token or the address.
            UnavailableError: Telegram does not answer.
        """
        if not self.webhook:
            hint = Hint(("settings", "set", "web.origin", "https://HOST"))
            raise UsageError("missing web.origin, where Telegram reaches the users' API", hint=hint)
        secrets = lines_of(self.secrets.read(TELEGRAM_SECRET))
        if not secrets:
            hint = Hint(("secrets", "set", TELEGRAM_SECRET.name, "--from", "FILE"))
            raise RefusedError(f"the secret {TELEGRAM_SECRET.name} is empty", hint=hint)
        await self.client.set_webhook(self.webhook, secrets[0])
        return self.webhook

    def _keys(self) -> list[Check]:
        needs = {"telegram-secret": TELEGRAM_SECRET, "connector-key": CONNECTOR_KEY}
        return [_kept(name, spec.name, is_there=self.secrets.held(spec).is_there) for name, spec in needs.items()]


@dataclass(frozen=True)
class Bots:
    """All bots.

    Attributes:
        registrations: Of the messengers that are offered.
    """

    registry: Registry
    registrations: Sequence[TelegramRegistration]

    async def check(self, messenger: str = "") -> list[Check]:
        """Check all bots, or that of one messenger.

        Raises:
            UsageError: It has no bot.
        """
        chosen = [self._of(messenger)] if messenger else self.registrations
        return [check for registration in chosen for check in await registration.check()]

    async def register(self, messenger: str, *, reason: str) -> str:
        """Tell a messenger the address of the users' API, as ``TelegramRegistration.register``; audited.

        Raises:
            UsageError: There is no reason, or the messenger has no bot.
        """
        require_reason(reason, "messenger", "register", messenger)
        url = await self._of(messenger).register()
        self.registry.audit.append("webhook_registered", f"messenger/{messenger}", after={"url": url}, why=reason)
        return url

    def _of(self, messenger: str) -> TelegramRegistration:
        for registration in self.registrations:
            if registration.messenger == messenger:
                return registration
        raise UsageError(
            f"{messenger} has no bot here", hint=Hint(("settings", "set", f"messengers.{messenger}_bot", "NAME"))
        )


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


def _failed(name: str, error: HermesError) -> Check:
    verdict = Verdict.FAILED if isinstance(error, RefusedError) else Verdict.UNKNOWN
    return Check(name, verdict, error.message, error.hint)


def _kept(name: str, secret: str, *, is_there: bool) -> Check:
    if is_there:
        return Check(name, Verdict.OK, "kept")
    return Check(name, Verdict.FAILED, "missing", Hint(("secrets", "set", secret, "--from", "FILE")))
