"""Verifies a user's choice of a model provider before it is saved, and makes the change of settings that saves it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hermesops.agents.model_providers.verdict import KeyOutcome, judge
from hermesops.errors import UnavailableError, UsageError
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.model.providers.choice import ProviderChoice, completed
from hermesops.store.registry import Registry
from hermesops.vendor.model_providers.client import ModelProviderClient

ProviderPatch = Callable[[InstanceSettings], InstanceSettings]


class UnverifiedKeyError(UnavailableError):
    """The provider could not be asked, or its answer says nothing: nobody knows whether it accepts the key."""


@dataclass(frozen=True)
class ModelProviders:
    """Users' own model providers. The process that the internet reaches never asks one.

    Attributes:
        report: Takes narration.
    """

    registry: Registry
    client: ModelProviderClient
    report: Callable[[str], None] = lambda _: None

    def of(self, instance: Instance) -> ProviderChoice | None:
        """An instance's own provider without its key; ``None`` for the platform's models."""
        choice = self.registry.instance_secrets.settings(instance.id).provider
        return choice.without_key() if choice else None

    def completed(
        self, instance: Instance, provider: str, *, model: str, key: str = "", base_url: str = ""
    ) -> ProviderChoice:
        """Check a choice for an instance, whose provider is not asked.

        Args:
            key: Empty for the present one, at the same provider and address.

        Raises:
            UsageError: A part contradicts another.
        """
        before = self.registry.instance_secrets.settings(instance.id).provider
        world_address = self.client.world_address()
        return completed(before, provider, model=model, key=key, base_url=base_url, world_address=world_address)

    async def verified(self, choice: ProviderChoice, *, may_be_unknown: bool = False) -> ProviderChoice:
        """Ask the provider of a checked choice once whether it accepts the key; saves nothing.

        That may be a turn which the user pays, so everything else is checked before.

        Args:
            may_be_unknown: Whether a key of which nobody knows is taken, too. A refused one never is.

        Raises:
            UsageError: The provider refuses the key, or it lacks the model.
            UnverifiedKeyError: See there.
        """
        self.report(f"asking {choice.facts.title} about the key")
        verdict = judge(choice, await self.client.ask(choice))
        match verdict.outcome:
            case KeyOutcome.ACCEPTED:
                return replace(choice, verified_at=self.registry.now().isoformat(timespec="seconds"))
            case KeyOutcome.REFUSED:
                raise UsageError(verdict.words, field=verdict.field)
            case KeyOutcome.UNKNOWN if may_be_unknown:
                return replace(choice, verified_at="")
        raise UnverifiedKeyError(f"{verdict.words}; try again in some minutes, or save the key unverified")


def using(choice: ProviderChoice | None) -> ProviderPatch:
    """The change to a provider, or to the platform's models for ``None``; the rest stays. Pure."""
    return lambda settings: replace(settings, provider=choice)
