"""The app at Slack, whose address for events is entered on Slack's pages alone."""

from dataclasses import dataclass, field

from hermesops.access.secrets.catalog import CONNECTOR_KEY, SLACK_SECRET
from hermesops.access.secrets.store import Secrets
from hermesops.errors import HermesError, RefusedError, UnknownOutcomeError
from hermesops.model.check import Check, Verdict
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.slack.send import SlackBot
from hermesops.users.messaging.registrations.steps import failed, kept, webhook_at

_PAGE = "https://api.slack.com/apps/{app}/event-subscriptions"


@dataclass(frozen=True)
class SlackRegistration:
    """The app at Slack.

    Attributes:
        bot: Id of the app, as the settings have it.
        webhook: Address of the users' API that takes events; empty where it is not known.
    """

    bot: str
    client: SlackBot
    secrets: Secrets = field(repr=False)
    webhook: str
    messenger: Messenger = Messenger.SLACK

    async def check(self) -> list[Check]:
        """Ask Slack for the bot of the token; no method tells to which address it sends events."""
        keys = kept(self.secrets, {"slack-secret": SLACK_SECRET, "connector-key": CONNECTOR_KEY})
        try:
            name = await self.client.name()
        except (HermesError, UnknownOutcomeError) as error:
            return [*keys, failed("slack-token", error)]
        return [*keys, Check("slack-token", Verdict.OK, f"Slack takes it, for {name}")]

    async def register(self) -> str:
        """Say where the address is entered: Slack has no method for it that a bot's token may use.

        Raises:
            UsageError: The address of the users' API is not known.
            RefusedError: Always else.
        """
        webhook = webhook_at(self.webhook, "Slack")
        page = _PAGE.format(app=self.bot)
        raise RefusedError("Slack takes an address for events on its pages alone", hint=f"enter {webhook} at {page}")
