"""Notifications of tasks: to hosts that the user allows and that are on the internet, by TLS on port 443, signed.

Source: A2A specification 1.0, section 4.3.3; RFC 6890 for addresses that are not of the internet.
"""

import asyncio
import hmac
import re
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from urllib.parse import urlsplit

import httpx
import structlog

from hermesops.base.network.public_hosts import PORT, NotPublicError, PublicNetwork, is_host
from hermesops.base.waiting import pause
from hermesops.errors import HermesError, RefusedError
from hermesops.model.chat.caller import MOST_TRIES, Caller
from hermesops.store.calling_rows.callers import AgentCallers
from hermesops.store.calling_rows.pushes import MOST, DuePush, Push, TaskPushes
from hermesops.users.callers.tasks import AgentTask, AgentTasks

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
            raise PushRefusedError(f"a task has at most {MOST} addresses that are notified")

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
        raise PushRefusedError("the address is no URL") from None
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
        raise PushRefusedError("an address begins with https://, on port 443, without a user and a fragment")
    if not is_host(host) or host not in hosts:
        raise PushRefusedError("the agent's user does not allow notifications to this host")
    if not _ID.fullmatch(push.id):
        raise PushRefusedError("the id of the address has other characters than A-Z, a-z, 0-9 and ._:-, or too many")
    if not all(map(_PROOF.fullmatch, (push.token, push.credentials))):
        raise PushRefusedError(f"a token has at most {LONGEST_PROOF} visible characters of ASCII")
    if push.scheme and push.scheme.lower() not in _SCHEMES:
        raise PushRefusedError("the scheme of the address is bearer or basic")


def state_of(task: AgentTask) -> str:
    """The state of a task that an address is notified of once; empty while it goes on. Pure."""
    if task.request is not None:
        return f"asked-{task.request.number}"
    return task.turn.state.value if task.turn.has_ended else ""


def signature(key_hash: str, at: int, body: bytes) -> str:
    """The signature of a notification: whoever has the caller's key can compute it. Pure."""
    mac = hmac.new(key_hash.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    return f"t={at},v1={mac}"


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
        """Look at addresses that are due until cancelled."""
        while True:
            try:
                due = await asyncio.to_thread(lambda: self._rows.take_due(for_=_TAKEN))
                await asyncio.gather(*map(self._look, due))
            except HermesError as error:
                log.info("pushes_wait", why=type(error).__name__)
            await pause(_LOOK_S)

    async def _look(self, due: DuePush) -> None:
        """Notify one address of its task's state, if that is new to it."""
        push, is_sent, has_ended = due.push, True, False
        try:
            caller = await asyncio.to_thread(self._callers.of_id, due.caller_id)
            task = await self._tasks.get(caller, push.turn_id) if caller else None
            state = state_of(task) if task else ""
            has_ended = task is None or task.turn.has_ended
            if caller and task and state and state != push.sent:
                refuse_address(push, caller.push_hosts)  # the user may have changed them meanwhile
                is_sent = await self._send(caller, push, self._render(caller, task))
        except PushRefusedError:
            has_ended = True
        except HermesError as error:
            log.info("push_waits", turn=push.turn_id, why=type(error).__name__)
            is_sent = False
        except Exception:  # a bug costs one address its notification, and the others nothing
            log.exception("push_failed", turn=push.turn_id)
            has_ended = True
        else:
            push = push if not (is_sent and state) else Push(**{**vars(push), "sent": state})
        await self._note(push, is_sent=is_sent, has_ended=has_ended)

    async def _note(self, push: Push, *, is_sent: bool, has_ended: bool) -> None:
        tries = 0 if is_sent else push.tries + 1
        wait = _AGAIN if is_sent else min(_FIRST_PAUSE * 2**push.tries, _LONGEST_PAUSE)
        is_over = tries >= MOST_TRIES or (is_sent and has_ended)
        await asyncio.to_thread(
            lambda: self._rows.note(push, sent=push.sent, tries=tries, pause=wait, has_ended=is_over)
        )

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
