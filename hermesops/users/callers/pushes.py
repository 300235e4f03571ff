"""Notifications of tasks: to hosts that the user allows and that are on the internet, by TLS on port 443, signed.

Source: A2A specification 1.0, section 4.3.3; RFC 6890 for addresses that are not of the internet.
"""

import asyncio
import hmac
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import assert_never
from urllib.parse import urlsplit

import httpx
import structlog

from hermesops.base.fan_out import attempt
from hermesops.base.network.public_hosts import PORT, NotPublicError, PublicNetwork, is_host
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, RefusedError
from hermesops.model.chat.caller import MOST_TRIES, Caller
from hermesops.store.calling_rows.callers import AgentCallers
from hermesops.store.calling_rows.pushes import MOST, OF_USER, DuePush, Push, TaskPushes
from hermesops.users.callers.tasks import AgentTask, AgentTasks, NoSuchTaskError

SIGNATURE = "x-hermesops-signature"
TOKEN = "x-a2a-notification-token"  # noqa: S105 - a header's name
LONGEST_URL, LONGEST_PROOF = 1_000, 1_000

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_SCHEMES = frozenset({"bearer", "basic"})
_PROOF = re.compile(rf"[!-~]{{0,{LONGEST_PROOF}}}")
_LOOK_S = 1.0
_TAKEN = timedelta(seconds=60)
_AGAIN = timedelta(seconds=1)
"""Between two looks at a task that goes on."""

_BATCH, _MOST_LOOKS = 20, 200
"""Addresses that are taken at once, and that are looked at at once."""

_LOOK_WITHIN_S = 45.0
"""Seconds for one look: for an agent's answer and a host's. Afterwards another process may take the address."""

_ABSENT_PAUSE, _LONGEST_ABSENCE = timedelta(minutes=1), timedelta(hours=6)
"""Between two looks at a task whose agent does not answer; and how long after its end its answer is waited for."""

_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=10)
_WITHIN_S = 10.0

log = structlog.get_logger()


class PushRefusedError(RefusedError):
    """The address may not be notified."""


class TaskNotices:
    """Addresses that callers have notified of their tasks."""

    def __init__(self, rows: TaskPushes) -> None:
        self._rows = rows

    def refuse(self, caller: Caller, push: Push) -> None:
        """Check an address before its task begins; raises as ``put``."""
        refuse_address(push, caller.push_hosts)

    async def put(self, caller: Caller, push: Push) -> None:
        """Add an address to a task, or change the one of this id.

        Raises:
            PushRefusedError: The user does not allow its host, or it is no address that may be notified.
        """
        refuse_address(push, caller.push_hosts)
        if not await asyncio.to_thread(self._rows.put, push):
            raise PushRefusedError(f"a task can have at most {MOST} notification addresses")

    async def list(self, task: AgentTask) -> tuple[Push, ...]:
        """The addresses of a task."""
        return await asyncio.to_thread(self._rows.list, task.turn.id)

    async def delete(self, task: AgentTask, id_: str) -> bool:
        """Delete an address of a task; whether there was one."""
        return await asyncio.to_thread(self._rows.delete, task.turn.id, id_)


def refuse_address(push: Push, hosts: Sequence[str]) -> None:
    """Check an address that a caller names. Pure.

    Raises:
        PushRefusedError: See there.
    """
    try:
        parts = urlsplit(push.url)
        port = parts.port
    except ValueError:
        raise PushRefusedError("the address is not a URL") from None
    host = (parts.hostname or "").lower()
    is_plain = (
        not (parts.username or parts.password or parts.fragment) and push.url.isascii() and push.url.isprintable()
    )
    if (
        len(push.url) > LONGEST_URL
        or parts.scheme != "https"
        or port not in {None, PORT}
        or not is_plain
        or " " in push.url
    ):
        raise PushRefusedError("the address must begin with https://, use port 443 and have no user and no fragment")
    if not is_host(host) or host not in hosts:
        raise PushRefusedError("the agent's user does not allow notifications to this host")
    if not _ID.fullmatch(push.id):
        raise PushRefusedError("the id of the address is too long, or has characters other than A-Z, a-z, 0-9 and ._:-")
    if not all(map(_PROOF.fullmatch, (push.token, push.credentials))):
        raise PushRefusedError(f"a token must have at most {LONGEST_PROOF} visible characters of ASCII")
    if push.scheme and push.scheme.lower() not in _SCHEMES:
        raise PushRefusedError("the authentication scheme must be bearer or basic")


def state_of(task: AgentTask) -> str:
    """The state of a task that an address is notified of once; empty while it goes on. Pure."""
    if task.request is not None:
        return f"asked-{task.request.number}"
    return task.turn.state.value if task.turn.has_ended else ""


def signature(key_hash: str, at: int, body: bytes) -> str:
    """The signature of a notification: whoever has the caller's key can compute it. Pure."""
    mac = hmac.new(key_hash.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    return f"t={at},v1={mac}"


class Outcome(StrEnum):
    """Outcomes of looking at an address."""

    NOTHING_NEW = "nothing-new"
    TAKEN = "taken"
    NOT_TAKEN = "not-taken"
    """The host refused, or was not reached."""

    UNREAD = "unread"
    """How the task stands could not be read, as where its agent is away: the host was not asked, and lost no try."""

    OVER = "over"
    """Nothing is sent to this address any more."""


@dataclass(frozen=True)
class Observation:
    """An observation of an address and its task.

    Attributes:
        state: Of the task, as ``state_of`` gives it; empty where it was not read.
        has_ended: Whether the task has.
    """

    outcome: Outcome
    state: str = ""
    has_ended: bool = False


@dataclass(frozen=True)
class PushNote:
    """A record of an observation, as ``TaskPushes.note`` takes it."""

    sent: str
    tries: int
    pause: timedelta
    has_ended: bool = False


def note_of(push: Push, observation: Observation) -> PushNote:
    """Decide what is recorded of an observation, and when the address is looked at again. Pure.

    After six tries of a state that state is given up, and the address only with the end of its task.
    """
    is_given_up = push.tries >= MOST_TRIES
    match observation.outcome:
        case Outcome.OVER:
            return PushNote(push.sent, push.tries, _AGAIN, has_ended=True)
        case Outcome.UNREAD:
            return PushNote(push.sent, push.tries, _ABSENT_PAUSE)
        case Outcome.NOTHING_NEW:
            return PushNote(push.sent, push.tries if is_given_up else 0, _AGAIN, has_ended=observation.has_ended)
        case Outcome.TAKEN:
            return PushNote(observation.state, 0, _AGAIN, has_ended=observation.has_ended)
        case Outcome.NOT_TAKEN:
            before = 0 if is_given_up else push.tries
            if before + 1 < MOST_TRIES:
                return PushNote(push.sent, before + 1, min(_FIRST_PAUSE * 2**before, _LONGEST_PAUSE))
            sent = push.sent if observation.has_ended else observation.state
            return PushNote(sent, MOST_TRIES, _AGAIN, has_ended=observation.has_ended)
        case unreachable:
            assert_never(unreachable)


class PushSender:
    """Sends notifications, each of a state at least once, from rows alone.

    Args:
        render: The body that tells a caller how a task stands.
    """

    def __init__(
        self,
        rows: TaskPushes,
        callers: AgentCallers,
        tasks: AgentTasks,
        render: Callable[[Caller, AgentTask], bytes],
        network: PublicNetwork,
    ) -> None:
        self._rows = rows
        self._callers = callers
        self._tasks = tasks
        self._render = render
        self._network = network

    async def run(self) -> None:
        """Look at addresses that are due until cancelled; none waits for another one's host."""
        under_way: dict[asyncio.Task[object], DuePush] = {}
        try:
            while True:
                try:
                    for due in await self._take(under_way.values()):
                        task = asyncio.ensure_future(attempt(self._look, due, _LOOK_WITHIN_S))
                        under_way[task] = due
                        task.add_done_callback(under_way.pop)
                except HermesError as error:
                    log.info("pushes_wait", why=type(error).__name__)
                await pause(_LOOK_S)
        finally:
            await cancel(*under_way)

    async def _take(self, under_way: Collection[DuePush]) -> Sequence[DuePush]:
        """Addresses to look at beside those that are looked at: of no caller that has some, and no user with many."""
        free = min(_BATCH, _MOST_LOOKS - len(under_way))
        if free <= 0:
            return ()
        of_users = Counter(due.user_id for due in under_way)
        callers = {due.caller_id for due in under_way}
        users = {user_id for user_id, count in of_users.items() if count >= OF_USER}
        return await asyncio.to_thread(
            lambda: self._rows.take_due(for_=_TAKEN, limit=free, callers=callers, users=users)
        )

    async def _look(self, due: DuePush) -> None:
        """Notify one address of its task's state, if that is new to it, and record when to look again."""
        try:
            observation = await self._observed(due)
        except (PushRefusedError, NoSuchTaskError):
            observation = Observation(Outcome.OVER)
        except HermesError as error:
            log.info("push_waits", turn=due.push.turn_id, why=type(error).__name__)
            observation = Observation(Outcome.UNREAD)
        except Exception:  # a bug costs one address its notification, and the others nothing
            log.exception("push_failed", turn=due.push.turn_id)
            observation = Observation(Outcome.OVER)
        note = note_of(due.push, observation)
        await asyncio.to_thread(lambda: self._rows.note(due, **asdict(note)))

    async def _observed(self, due: DuePush) -> Observation:
        """Notify an address; of an answer that its agent did not give for hours, the caller gets the state alone.

        Raises:
            PushRefusedError: The address may not be notified any more.
            NoSuchTaskError: See there.
            UnavailableError: The agent, or the database, does not answer.
        """
        push = due.push
        caller = await asyncio.to_thread(self._callers.of_id, due.caller_id)
        if caller is None:
            return Observation(Outcome.OVER)
        is_late = due.ended_for is not None and due.ended_for > _LONGEST_ABSENCE
        task = await self._tasks.get(caller, push.turn_id, is_answer_read=not is_late)
        state, has_ended = state_of(task), task.turn.has_ended
        if not state or state == push.sent:
            return Observation(Outcome.NOTHING_NEW, state, has_ended=has_ended)
        refuse_address(push, caller.push_hosts)  # the user may have changed them meanwhile
        is_taken = await self._send(caller, push, self._render(caller, task))
        return Observation(Outcome.TAKEN if is_taken else Outcome.NOT_TAKEN, state, has_ended=has_ended)

    async def _send(self, caller: Caller, push: Push, body: bytes) -> bool:
        """Send one notification to an address of the internet; whether its host took it."""
        parts = urlsplit(push.url)
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        try:
            async with (
                asyncio.timeout(_WITHIN_S),
                self._network.stream(
                    "POST",
                    (parts.hostname or "").lower(),
                    path,
                    headers=_headers(caller, push, body),
                    content=body,
                    within_s=_WITHIN_S,
                ) as response,
            ):
                return response.is_success
        except NotPublicError as error:
            raise PushRefusedError(str(error)) from None
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            log.info("push_not_taken", turn=push.turn_id, why=type(error).__name__)
            return False


def _headers(caller: Caller, push: Push, body: bytes) -> dict[str, str]:
    headers = {"content-type": "application/json", SIGNATURE: signature(caller.key_hash, int(time.time()), body)}
    if push.token:
        headers[TOKEN] = push.token
    if push.scheme and push.credentials:
        headers["authorization"] = f"{push.scheme} {push.credentials}"
    return headers
