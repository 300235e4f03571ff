"""All bots, as operators check and register them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hermesops.errors import Hint, UsageError, require_reason
from hermesops.model.check import Check
from hermesops.model.messaging.messenger import Messenger
from hermesops.settings.sections import BOT_SETTINGS
from hermesops.store.registry import Registry

_EXAMPLES = {
    Messenger.TELEGRAM: "NAME",
    Messenger.SLACK: "A0123456789",
    Messenger.WHATSAPP: "15550001111",
    Messenger.DISCORD: "1234567890123456789",
}
"""Values of the settings by which bots are offered."""


class Registration(Protocol):
    """A messenger's bot, and where the messenger sends what users write."""

    @property
    def messenger(self) -> Messenger:
        """The messenger."""

    @property
    def bot(self) -> str:
        """The bot's name, as the settings have it."""

    async def check(self) -> list[Check]:
        """Ask the messenger for the bot and the address; a step that fails is a check that did."""

    async def register(self) -> str:
        """Have the messenger send what users write to the users' API from now on; returns the address.

        Raises:
            UsageError: The address of the users' API is not known.
            RefusedError: The messenger does not take the token or the address, or takes it on its pages alone.
            UnavailableError: The messenger does not answer.
        """


@dataclass(frozen=True)
class Bots:
    """All bots.

    Attributes:
        registrations: Of the messengers that are offered.
    """

    registry: Registry
    registrations: Sequence[Registration]

    async def check(self, messenger: str = "") -> list[Check]:
        """Check all bots, or that of one messenger.

        Raises:
            UsageError: It has no bot.
        """
        chosen = [self._of(messenger)] if messenger else self.registrations
        return [check for registration in chosen for check in await registration.check()]

    async def register(self, messenger: str, *, reason: str) -> str:
        """Tell a messenger the address of the users' API, as ``Registration.register``; audited.

        Raises:
            UsageError: There is no reason, or the messenger has no bot.
        """
        require_reason(reason, "messenger", "register", messenger)
        url = await self._of(messenger).register()
        self.registry.audit.append("webhook_registered", f"messenger/{messenger}", after={"url": url}, why=reason)
        return url

    def _of(self, messenger: str) -> Registration:
        for registration in self.registrations:
            if registration.messenger == messenger:
                return registration
        named = next((each for each in BOT_SETTINGS if each == messenger), Messenger.TELEGRAM)
        setting = Hint(("settings", "set", f"messengers.{BOT_SETTINGS[named]}", _EXAMPLES[named]))
        raise UsageError(f"{messenger} has no bot here", hint=setting)
