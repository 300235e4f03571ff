"""The socket of one agent: users' messages go in, the agent's messages come out, each one first a row."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from hermesops.base.bell import Bell
from hermesops.base.waiting import cancel
from hermesops.connector import frames
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import Incoming, IncomingState
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.sockets import AgentSockets
from hermesops.users.messaging.files.references import AddressedFile, uploaded_id
from hermesops.users.messaging.outbound.answers import AgentMessage, Answers, NotYourChatError, NotYourFileError
from hermesops.users.messaging.recovery.reconcile import LATE
from hermesops.wire.strict_json import MalformedJSONError

REPLACED = 4408
"""Closes a socket whose agent has opened another one."""

_MALFORMED = 1007
_LOOK_S = 60.0
"""Seconds after which a socket looks for messages though nobody rang."""

_A_MINUTE = 600
"""Frames of an agent in a minute; more end its socket, and it dials again."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Delivering:
    """What sockets of agents work with.

    Attributes:
        holder: Name of this process.
        answered: Rings when an agent has written.
        addressed: A message's files with their addresses.
    """

    holder: str
    rows: AgentSockets
    incoming: IncomingMessages
    answers: Answers
    answered: Bell
    addressed: Callable[[Incoming], Sequence[AddressedFile]] = lambda _: ()


@dataclass
class AgentSocket:
    """An open socket.

    Attributes:
        fence: Its number; a larger one replaces it.
        queued: Rings when a message was queued.
    """

    socket: ServerConnection
    parts: Delivering
    instance_id: InstanceId
    fence: int
    queued: Bell = field(default_factory=Bell)
    _is_idle: bool = False
    _under_way: deque[Incoming] = field(default_factory=deque)

    @property
    def takes_messages(self) -> bool:
        """Whether the gateway still reads: one that stops does not, and neither does one whose socket closes."""
        return not self._is_idle and self.socket.state is State.OPEN

    def hand_on(self, incoming: Incoming) -> None:
        """Write a message soon that is recorded as under way by this socket."""
        self._under_way.append(incoming)
        self.queued.ring()

    async def run(self) -> None:
        """Carry frames both ways until the socket closes or another one of the agent replaces it."""
        works = [asyncio.ensure_future(work()) for work in (self._read, self._write)]
        try:
            done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for work in done:
                work.result()
        except ConnectionClosed:
            pass
        finally:
            await cancel(*works)
            await self._release()

    async def _release(self) -> None:
        """Give the socket up; where the database is away, the next socket's fence does."""
        try:
            await asyncio.to_thread(self.parts.rows.release, self.instance_id, self.fence)
        except HermesError as error:
            log.warning("socket_not_released", instance=self.instance_id, why=error.message)

    async def _read(self) -> None:
        budget = _Rate(_A_MINUTE)
        async for data in self.socket:
            for line in data.split("\n") if isinstance(data, str) else data.split(b"\n"):
                if not budget.take(asyncio.get_running_loop().time()):
                    await self.socket.close(REPLACED, "too many frames")
                    return
                if line.strip():
                    await self._handle(line)

    async def _handle(self, line: str | bytes) -> None:
        try:
            frame = frames.parse(line)
        except MalformedJSONError:
            await self.socket.close(_MALFORMED, "a malformed frame")
            return
        match frame:
            case frames.Hello():
                await self.socket.send(frames.descriptor())
            case frames.Taken(message_id) if message_id.isdigit():
                await self._note_taken(int(message_id))
            case frames.Message():
                await self.socket.send(await self._take(frame))
            case frames.ChatQuestion(request_id, chat):
                await self.socket.send(frames.chat_info(request_id, chat))
            case frames.Unsupported(request_id, op):
                await self.socket.send(frames.refusal(request_id, f"unsupported: {op}"))
            case frames.Idle():
                self._is_idle = True
                await self.socket.send(frames.idle())

    async def _note_taken(self, message_id: int) -> None:
        """Record that the agent has a message; where the database is away, the agent's transcript tells it later."""
        try:
            await asyncio.to_thread(self.parts.incoming.taken, message_id, self.instance_id, self.fence)
        except HermesError as error:
            log.warning("message_not_noted", instance=self.instance_id, why=error.message)

    async def _take(self, frame: frames.Message) -> str:
        file_id = uploaded_id(frame.source) if isinstance(frame, frames.FileMessage) else ""
        if isinstance(frame, frames.FileMessage) and not file_id:
            log.warning("foreign_file_refused", instance=self.instance_id)
            return frames.refusal(frame.request_id, "no_such_file")
        message = AgentMessage(
            *(self.instance_id, frame.request_id, frame.chat, frame.text, self.fence, frame.reply_to), file_id=file_id
        )
        try:
            message_id = await asyncio.to_thread(self.parts.answers.take, message)
        except (NotYourChatError, NotYourFileError) as error:
            log.warning("foreign_answer_refused", instance=self.instance_id, why=error.message)
            return frames.refusal(frame.request_id, error.message)
        except HermesError as error:
            log.warning("answer_not_taken", instance=self.instance_id, why=error.message)
            return frames.refusal(frame.request_id, "not taken now")
        self.parts.answered.ring()
        self.queued.ring()
        return frames.result(frame.request_id, message_id)

    async def _write(self) -> None:
        while True:
            try:
                await self._deliver()
            except HermesError as error:
                log.warning("messages_not_delivered", instance=self.instance_id, why=error.message)
            await self.queued.wait(_LOOK_S)

    async def _deliver(self) -> None:
        """Write what waits, each message recorded as under way before."""
        while self._under_way:
            await self._write_handed_on(self._under_way.popleft())
        if not self.takes_messages:
            return
        for command in await asyncio.to_thread(self.parts.incoming.commands, self.instance_id):
            await self._deliver_command(command)
        for waiting in await asyncio.to_thread(self.parts.incoming.waiting, self.instance_id):
            incoming = await asyncio.to_thread(self.parts.incoming.send, waiting.id, self.fence)
            if incoming is not None:
                await self._send(incoming)

    async def _write_handed_on(self, incoming: Incoming) -> None:
        """Write a message, or put it back into the queue where the gateway does not read any more."""
        if not self.takes_messages:
            await asyncio.to_thread(self.parts.incoming.queue_again, incoming.id)
        else:
            await self._send(incoming)

    async def _send(self, incoming: Incoming) -> None:
        files = await asyncio.to_thread(self.parts.addressed, incoming) if incoming.files else ()
        await self.socket.send(frames.inbound(incoming, files))

    async def _deliver_command(self, command: Incoming) -> None:
        """Write a word to an agent at work, or drop it: one that comes late could approve what nobody has read."""
        is_late = await asyncio.to_thread(self.parts.incoming.now) - command.received_at > LATE
        ending = (IncomingState.DEAD, "late") if is_late else (IncomingState.ANSWERED, "command")
        if await asyncio.to_thread(self.parts.incoming.end, command.id, *ending) and not is_late:
            await self.socket.send(frames.inbound(command))


class _Rate:
    """Counts frames of the present minute."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._since, self._count = 0.0, 0

    def take(self, now: float) -> bool:
        if now - self._since > 60:  # noqa: PLR2004 - a minute
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= self._most


Secrets = Callable[[InstanceId], tuple[str, ...]]
"""The secrets by which an agent's gateway may sign, newest last; none for an agent that has ended."""
