"""The number at WhatsApp, and the address to which its account's reports go."""

from dataclasses import dataclass, field

from hermesops.access.secrets.catalog import CONNECTOR_KEY, WHATSAPP_KEY, WHATSAPP_SECRET
from hermesops.access.secrets.store import Secrets
from hermesops.errors import HermesError, Hint, RefusedError, UnknownOutcomeError
from hermesops.model.check import Check, Verdict
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.whatsapp.read import verify_token
from hermesops.users.messaging.messengers.whatsapp.send import Number, WhatsAppBot
from hermesops.users.messaging.registrations.steps import failed, kept, webhook_at
from hermesops.users.messaging.secrets import lines_of

_NEEDS = {"whatsapp-secret": WHATSAPP_SECRET, "whatsapp-key": WHATSAPP_KEY, "connector-key": CONNECTOR_KEY}


@dataclass(frozen=True)
class WhatsAppRegistration:
    """The number at WhatsApp, and the webhook that its account should have.

    Attributes:
        bot: The number, as the settings have it.
        webhook: Address of the users' API that takes reports; empty where it is not known.
    """

    bot: str
    client: WhatsAppBot
    secrets: Secrets = field(repr=False)
    webhook: str
    messenger: Messenger = Messenger.WHATSAPP

    async def check(self) -> list[Check]:
        """Ask Meta for the number and the address; a step that fails is a check that did."""
        keys = kept(self.secrets, _NEEDS)
        try:
            number = await self.client.number()
        except (HermesError, UnknownOutcomeError) as error:
            return [*keys, failed("whatsapp-token", error)]
        token = judged_number(number, self.bot)
        try:
            webhook = await self.client.webhook()
        except (HermesError, UnknownOutcomeError) as error:
            return [*keys, token, failed("whatsapp-webhook", error)]
        return [*keys, token, judged_webhook(webhook, self.webhook)]

    async def register(self) -> str:
        """Have WhatsApp send the account's reports to the users' API, which it asks at once; returns the address.

        Raises:
            UsageError: The address of the users' API is not known.
            RefusedError: There is no secret, or Meta does not take the token or the address.
            UnavailableError: Meta does not answer.
        """
        webhook = webhook_at(self.webhook, "WhatsApp")
        secrets = lines_of(self.secrets.read(WHATSAPP_SECRET))
        if not secrets:
            hint = Hint(("secrets", "set", WHATSAPP_SECRET.name, "--from", "FILE"))
            raise RefusedError(f"the secret {WHATSAPP_SECRET.name} is empty", hint=hint)
        await self.client.set_webhook(webhook, verify_token(secrets[0]))
        return webhook


def judged_number(number: Number, expected: str) -> Check:
    """Whether the token is for the number that the settings name, and people do not block it. Pure."""
    name = "whatsapp-token"
    if number.digits != expected:
        hint = Hint(("settings", "set", "messengers.whatsapp_number", number.digits), "or another whatsapp_phone")
        return Check(name, Verdict.FAILED, f"it is for +{number.digits}, the settings name +{expected}", hint)
    if number.quality == "RED":
        return Check(name, Verdict.WARNING, f"Meta takes it, for +{number.digits}, which many people have blocked")
    return Check(name, Verdict.OK, f"Meta takes it, for +{number.digits}")


def judged_webhook(url: str, expected: str) -> Check:
    """Whether WhatsApp sends the account's reports to the users' API. Pure."""
    name, again = "whatsapp-webhook", Hint(("messenger", "register", "whatsapp", "--reason", "WHY"))
    if not url:
        return Check(name, Verdict.FAILED, "WhatsApp has no address of ours to send to", again)
    if expected and url != expected:
        return Check(name, Verdict.FAILED, f"WhatsApp sends to {url}, not to {expected}", again)
    return Check(name, Verdict.OK, f"WhatsApp sends to {url}")
