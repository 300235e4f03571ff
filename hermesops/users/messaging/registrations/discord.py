"""The application at Discord, its bot, and the address that takes its commands."""

from dataclasses import dataclass, field

from hermesops.access.secrets.catalog import CONNECTOR_KEY
from hermesops.access.secrets.store import Secrets
from hermesops.errors import HermesError, Hint, UnknownOutcomeError
from hermesops.model.check import Check, Verdict
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.discord.send import Application, DiscordBot, Entrance
from hermesops.users.messaging.registrations.steps import failed, kept, webhook_at

_FEW = 50
"""Sessions that may begin today, of a thousand, below which something breaks them."""


@dataclass(frozen=True)
class DiscordRegistration:
    """The application at Discord.

    Attributes:
        bot: Its id, as the settings have it.
        public_key: As the settings have it; empty where the bot has no commands.
        webhook: Address of the users' API that takes commands; empty where it is not known.
    """

    bot: str
    public_key: str
    client: DiscordBot
    secrets: Secrets = field(repr=False)
    webhook: str
    messenger: Messenger = Messenger.DISCORD

    async def check(self) -> list[Check]:
        """Ask Discord for the application and its gateway; a step that fails is a check that did."""
        keys = kept(self.secrets, {"connector-key": CONNECTOR_KEY})
        try:
            application = await self.client.application()
        except (HermesError, UnknownOutcomeError) as error:
            return [*keys, failed("discord-token", error)]
        checks = [*keys, judged_application(application, self.bot)]
        checks.append(judged_webhook(application, self.public_key, self.webhook))
        try:
            return [*checks, judged_entrance(await self.client.entrance())]
        except (HermesError, UnknownOutcomeError) as error:
            return [*checks, failed("discord-gateway", error)]

    async def register(self) -> str:
        """Have Discord send commands to the users' API, and show them to people; returns the address.

        Raises:
            UsageError: The address of the users' API is not known.
            RefusedError: Discord does not take the token or the address.
            UnavailableError: Discord does not answer.
        """
        webhook = webhook_at(self.webhook, "Discord")
        await self.client.set_webhook(self.bot, webhook)
        return webhook


def judged_application(application: Application, expected: str) -> Check:
    """Whether the token is of the application that the settings name. Pure."""
    name = "discord-token"
    if application.id == expected:
        return Check(name, Verdict.OK, f"Discord takes it, for {application.name}")
    hint = Hint(("settings", "set", "messengers.discord_app", application.id), "or another token")
    return Check(name, Verdict.FAILED, f"it is of application {application.id}, the settings name {expected}", hint)


def judged_webhook(application: Application, public_key: str, expected: str) -> Check:
    """Whether Discord sends commands to the users' API, which verifies them by the right key. Pure."""
    name, again = "discord-webhook", Hint(("messenger", "register", "discord", "--reason", "WHY"))
    if application.public_key != public_key:
        hint = Hint(("settings", "set", "messengers.discord_public_key", application.public_key))
        return Check(name, Verdict.FAILED, "Discord signs commands by another key than the settings have", hint)
    if not application.webhook:
        return Check(name, Verdict.FAILED, "Discord has no address to send commands to", again)
    if expected and application.webhook != expected:
        return Check(name, Verdict.FAILED, f"Discord sends to {application.webhook}, not to {expected}", again)
    return Check(name, Verdict.OK, f"Discord sends commands to {application.webhook}")


def judged_entrance(entrance: Entrance) -> Check:
    """Whether enough sessions of the gateway may begin today. Pure."""
    words = f"{entrance.left} sessions of the gateway may begin within {entrance.again_s / 3600:.0f} h"
    if entrance.left >= _FEW:
        return Check("discord-gateway", Verdict.OK, words)
    hint = Hint(("platform", "logs", "hermesops-connector"), "says why sessions end")
    return Check("discord-gateway", Verdict.WARNING, words, hint)
