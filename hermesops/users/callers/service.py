"""Agents that may call a user's agent: the user makes and revokes their keys, and each request is known by one."""

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hermesops.base.network.public_hosts import is_host
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.chat.caller import Caller
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.calling_rows.callers import MOST, AgentCallers
from hermesops.store.calling_rows.pushes import TaskPushes
from hermesops.store.calling_rows.tasks import CalledTasks
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.users.chat.service import NoAgentError
from hermesops.wire.foreign_text import one_line

LONGEST_NAME = 60
MOST_HOSTS = 10
KEY_PREFIX = "hma_"
"""Begin of a key, by which scanners of secrets know it."""

_KEY = re.compile(KEY_PREFIX + r"[A-Za-z0-9_-]{43}")


class UnknownCallerError(RefusedError):
    """There is no such agent, or the key does not open it: whoever asks is not told which."""


class TooManyCallersError(RefusedError):
    """The user has as many callers as may be, or had this one and revoked it."""


class NoSuchCallerError(UsageError):
    """The user has no such caller."""


@dataclass(frozen=True)
class MadeCaller:
    """A caller as it was made.

    Attributes:
        key: Its key, which is kept nowhere; ``None`` where the client had made it before.
    """

    caller: Caller
    key: str | None = field(repr=False)


@dataclass(frozen=True)
class CallingRows:
    """The rows that calls work on."""

    callers: AgentCallers
    tasks: CalledTasks
    pushes: TaskPushes


class Callers:
    """Keys of agents that call users' agents.

    Args:
        is_denied: Whether a user may not use the platform.
    """

    def __init__(
        self, accounts: UserAccounts, rows: AgentCallers, is_denied: Callable[[UserId], bool] = lambda _: False
    ) -> None:
        self._accounts = accounts
        self._rows = rows
        self._is_denied = is_denied

    async def list(self, user_id: UserId) -> tuple[Caller, ...]:
        """The agents that may call the user's agent, the oldest first."""
        return await asyncio.to_thread(self._rows.list, user_id)

    async def make(
        self, user_id: UserId, client_key: str, name: str, push_hosts: Sequence[str], *, may_approve: bool
    ) -> MadeCaller:
        """Let one more agent call the user's agent; repeated with the same ``client_key``, it makes no second one.

        Raises:
            NoAgentError: The user has no agent.
            TooManyCallersError: See there.
            UsageError: The name is empty, or a host is none.
        """
        shown, hosts = _name_in(name), _hosts_in(push_hosts)
        account = await asyncio.to_thread(self._accounts.of_user, user_id)
        if account is None:
            raise NoAgentError("you have no agent", hint="subscribe to a plan")
        key = KEY_PREFIX + secrets.token_urlsafe(32)

        def add() -> tuple[Caller | None, bool]:
            return self._rows.add(
                user_id, account.instance_id, client_key, key, name=shown, push_hosts=hosts, may_approve=may_approve
            )

        caller, is_new = await asyncio.to_thread(add)
        if caller is None:
            raise TooManyCallersError(f"at most {MOST} agents may call yours, and a revoked one needs a new request")
        return MadeCaller(caller, key if is_new else None)

    async def revoke(self, user_id: UserId, caller_id: str) -> None:
        """End a caller's key; its next request is refused.

        Raises:
            NoSuchCallerError: See there.
        """
        if not await asyncio.to_thread(self._rows.revoke, user_id, caller_id):
            raise NoSuchCallerError("there is no such caller")

    async def of_request(self, agent: str, authorization: str) -> Caller:
        """The caller of a request to an agent's address.

        Args:
            agent: Id of the agent in the address.
            authorization: The header.

        Raises:
            UnknownCallerError: See there.
        """
        scheme, _, key = authorization.partition(" ")
        key = key.strip()
        if scheme.lower() == "bearer" and _KEY.fullmatch(key):
            caller = await asyncio.to_thread(self._rows.of_key, InstanceId(agent), key)
            if caller is not None and not self._is_denied(caller.user_id):
                return caller
        raise UnknownCallerError("the key is not valid for this agent")

    async def is_live(self, caller: Caller) -> bool:
        """Whether a caller's key still counts; yes where that cannot be known now."""
        try:
            present = await asyncio.to_thread(self._rows.of_id, caller.id)
        except UnavailableError:
            return True
        return present is not None and not self._is_denied(present.user_id)

    async def is_open(self, agent: str) -> bool:
        """Whether anybody may call this agent, so that its card is shown."""
        return await asyncio.to_thread(self._rows.has_callers, InstanceId(agent))


def _name_in(name: str) -> str:
    shown = one_line(name, longest=LONGEST_NAME)
    if not shown:
        raise UsageError("the caller needs a name", field="name")
    return shown


def _hosts_in(hosts: Sequence[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(host.lower() for host in hosts))
    if len(names) > MOST_HOSTS or not all(map(is_host, names)):
        raise UsageError(f"name at most {MOST_HOSTS} hosts, for example hooks.example.com", field="push_hosts")
    return names
