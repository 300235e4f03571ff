"""What a user may set: model, personality and tools; by the same request as an operator's, under the same checks."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace

from hermesops.errors import RefusedError, UsageError
from hermesops.model.billing.route import ROUTES
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.model.ids import UserId
from hermesops.model.operation import LeaseHeldError, Operation
from hermesops.store.registry import Registry
from hermesops.store.user_rows.settings_copies import SettingsCopies
from hermesops.users.chat.service import NoAgentError
from hermesops.wire.errors import BadRequestError
from hermesops.wire.settings import Settings

SETTABLE = frozenset({"model", "personality", "disabled_tools"})

Patch = Callable[[InstanceSettings], InstanceSettings]


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
    """

    model: str
    personality: str = field(repr=False)
    disabled_tools: tuple[str, ...]
    tag: str
    models: tuple[str, ...]
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
    """

    registry: Registry
    configure: Callable[[str, Patch, str], Awaitable[Operation]]

    async def change(self, user_id: UserId, changes: Mapping[str, object], *, tag: str, reason: str) -> str:
        """Change settings that are as ``tag`` says; returns the id of the operation.

        Args:
            reason: Of the operation, for the audit; names the request.

        Raises:
            ChangedMeanwhileError: They are not.
            UsageError: A value cannot be.
            SettingsRefusedError: The agent takes none now, as while something else is done to it.
            UnavailableError: The agent's machine does not answer.
        """
        if not changes or changes.keys() - SETTABLE:
            raise UsageError(f"only {', '.join(sorted(SETTABLE))} can be set")
        instance = await asyncio.to_thread(self._instance, user_id)
        try:
            operation = await self.configure(instance.user_id, patch_of(changes, tag), reason)
        except ChangedMeanwhileError:
            raise
        except (RefusedError, LeaseHeldError) as refused:
            raise SettingsRefusedError("your agent takes no other settings now; try again in a minute") from refused
        return operation.id

    def _instance(self, user_id: UserId) -> Instance:
        return self.registry.instances.find(user_id)


def shown(settings: InstanceSettings) -> UserSettings:
    """The settings as their user sees them. Pure."""
    tools = tuple(settings.disabled_tools)
    models = tuple(route.name for route in ROUTES)
    return UserSettings(settings.model, settings.personality, tools, tag_of(settings), models)


def tag_of(settings: InstanceSettings) -> str:
    """A name of this state of the settings, which tells nothing about it. Pure."""
    text = json.dumps({name: value for name, value in asdict(settings).items() if name in SETTABLE}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def patch_of(changes: Mapping[str, object], tag: str) -> Patch:
    """The patch that a user's request is; it is applied under the lease, so that ``tag`` is compared there. Pure."""

    def patch(settings: InstanceSettings) -> InstanceSettings:
        if tag_of(settings) != tag:
            raise ChangedMeanwhileError("the settings were changed meanwhile; look at them again")
        try:
            parsed = Settings.parse(dict(changes))
        except BadRequestError as error:
            raise UsageError(str(error)) from None
        if parsed.model and parsed.model not in {route.name for route in ROUTES}:
            raise UsageError("there is no such model", field="model")
        values = asdict(InstanceSettings(**asdict(parsed)))
        return replace(settings, **{name: values[name] for name in changes})

    return patch
