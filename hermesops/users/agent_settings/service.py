"""What a user may set: model, personality, tools and an own model provider; by the same request as an operator's."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType

from hermesops.agents.model_providers.service import ModelProviders
from hermesops.errors import RefusedError, UsageError
from hermesops.model.access.masking import shown_provider
from hermesops.model.billing.route import ROUTES
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.model.ids import UserId
from hermesops.model.operation import LeaseHeldError, Operation
from hermesops.model.providers.choice import ProviderChoice
from hermesops.store.registry import Registry
from hermesops.store.user_rows.settings_copies import SettingsCopies
from hermesops.users.chat.service import NoAgentError
from hermesops.wire.errors import BadRequestError
from hermesops.wire.settings import Settings

SETTABLE = frozenset({"model", "personality", "disabled_tools", "provider"})

_UNCHANGED: Mapping[str, object] = {"id": "", "model": "", "key": "", "base_url": "", "unverified": False}
"""Parts of a request for a model provider, as left out."""

Patch = Callable[[InstanceSettings], InstanceSettings]

Verdict = Mapping[str, str]
"""That a provider was asked about a choice: a digest of the choice, and ``verified_at``. Empty where it was not."""


class ChangedMeanwhileError(RefusedError):
    """The settings are not those that the user saw."""


class SettingsRefusedError(RefusedError):
    """The agent takes no settings now."""


@dataclass(frozen=True)
class UserSettings:
    """Settings as a user sees them.

    Attributes:
        tag: Names this state of them.
        is_stale: Whether they were changed since a worker copied them.
        models: Names that ``model`` can have.
        provider: The user's own model provider, without its key; ``None`` for the platform's models.
    """

    model: str
    personality: str = field(repr=False)
    disabled_tools: tuple[str, ...]
    tag: str
    models: tuple[str, ...]
    provider: ProviderChoice | None = None
    is_stale: bool = False


@dataclass(frozen=True)
class CopiedSettings:
    """Settings of users' agents as workers copied them, for a process without the registry's key."""

    rows: SettingsCopies

    async def get(self, user_id: UserId) -> UserSettings:
        """The settings of the user's agent; they may be stale, and say so.

        Raises:
            NoAgentError: The user has no agent.
            CopyMissingError: They are not copied yet.
        """
        copy = await asyncio.to_thread(self.rows.get, user_id)
        if copy is None:
            raise NoAgentError("you have no agent")
        return replace(shown(copy.settings), is_stale=copy.is_stale)


@dataclass(frozen=True)
class AgentSettings:
    """Settings of users' agents.

    Attributes:
        configure: Opens the operation that gives an agent settings, as operators' requests do, and starts it.
        refuse_provider: Raises as ``configure`` would where an agent takes no provider now.
        providers: Checks a model provider of the user's own, and asks it about the key.
    """

    registry: Registry
    configure: Callable[[str, Patch, str], Awaitable[Operation]]
    refuse_provider: Callable[[str], Awaitable[None]]
    providers: ModelProviders

    async def change(
        self,
        user_id: UserId,
        changes: Mapping[str, object],
        *,
        tag: str,
        reason: str,
        known: Verdict = MappingProxyType({}),
        keep: Callable[[Verdict], None] = lambda _: None,
    ) -> str:
        """Change settings that are as ``tag`` says; returns the id of the operation.

        A model provider is asked last, and once: a change that is repeated, as after a machine that did not answer,
        brings the verdict along.

        Args:
            reason: Of the operation, for the audit; names the request.
            known: The verdict of an earlier try of this change.
            keep: Keeps the verdict for the next one.

        Raises:
            ChangedMeanwhileError: They are not.
            UsageError: A value cannot be, or the model provider refuses the key.
            UnverifiedKeyError: Nobody knows whether the provider accepts the key, and the user did not allow that.
            SettingsRefusedError: The agent takes none now, as while something else is done to it.
            UnavailableError: The agent's machine does not answer.
        """
        if not changes or changes.keys() - SETTABLE:
            raise UsageError(f"only {', '.join(sorted(SETTABLE))} can be set")
        instance = await asyncio.to_thread(self._instance, user_id)
        settings = await asyncio.to_thread(self.registry.instance_secrets.settings, instance.id)
        patch_of(changes, tag)(settings)
        try:
            provider = await self._provider(instance, changes.get("provider"), known, keep)
            operation = await self.configure(instance.user_id, patch_of(changes, tag, provider), reason)
        except ChangedMeanwhileError:
            raise
        except (RefusedError, LeaseHeldError) as refused:
            raise SettingsRefusedError("your agent takes no other settings now; try again in a minute") from refused
        return operation.id

    def _instance(self, user_id: UserId) -> Instance:
        return self.registry.instances.find(user_id)

    async def _provider(
        self,
        instance: Instance,
        requested: object,
        known: Verdict,
        keep: Callable[[Verdict], None],
    ) -> ProviderChoice | None:
        """The provider that a user requests, verified; ``None`` for the platform's models."""
        fields = {**_UNCHANGED, **requested} if isinstance(requested, dict) else _UNCHANGED
        words = {name: value for name, value in fields.items() if isinstance(value, str)}
        if fields.keys() != _UNCHANGED.keys() or len(words) != len(_UNCHANGED) - 1:
            raise UsageError("the model provider is malformed", field="provider")
        if not words["id"]:
            return None
        choice = await asyncio.to_thread(
            lambda: self.providers.completed(
                instance, words["id"], model=words["model"], key=words["key"], base_url=words["base_url"]
            )
        )
        name = _digest(choice)
        if known.get("choice") == name:
            return replace(choice, verified_at=known.get("verified_at", ""))
        await self.refuse_provider(instance.user_id)
        verified = await self.providers.verified(choice, may_be_unknown=fields["unverified"] is True)
        await asyncio.to_thread(keep, {"choice": name, "verified_at": verified.verified_at})
        return verified


def _digest(choice: ProviderChoice) -> str:
    """A name of a choice with its key. Pure."""
    return hashlib.sha256(json.dumps(asdict(replace(choice, verified_at="")), sort_keys=True).encode()).hexdigest()


def shown(settings: InstanceSettings) -> UserSettings:
    """The settings as their user sees them. Pure."""
    tools = tuple(settings.disabled_tools)
    models = tuple(route.name for route in ROUTES)
    provider = settings.provider.without_key() if settings.provider else None
    return UserSettings(settings.model, settings.personality, tools, tag_of(settings), models, provider)


def tag_of(settings: InstanceSettings) -> str:
    """A name of this state of the settings, which tells nothing about it. Pure."""
    values = {name: value for name, value in asdict(settings).items() if name in SETTABLE}
    values["provider"] = shown_provider(settings)  # a process without the key has the same tag
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def patch_of(changes: Mapping[str, object], tag: str, provider: ProviderChoice | None = None) -> Patch:
    """The patch that a user's request is; it is applied under the lease, so that ``tag`` is compared there. Pure.

    Args:
        provider: The verified one, where the changes name the provider.
    """
    others = {name: value for name, value in changes.items() if name != "provider"}

    def patch(settings: InstanceSettings) -> InstanceSettings:
        if tag_of(settings) != tag:
            raise ChangedMeanwhileError("the settings were changed meanwhile; look at them again")
        try:
            parsed = Settings.parse(others)
        except BadRequestError as error:
            raise UsageError(str(error)) from None
        if parsed.model and parsed.model not in {route.name for route in ROUTES}:
            raise UsageError("there is no such model", field="model")
        after = replace(settings, **{name: getattr(parsed, name) for name in others})
        return replace(after, provider=provider) if "provider" in changes else after

    return patch
