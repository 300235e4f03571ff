"""Hands users' files to their agents, and takes files that agents send to their users."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.files import LARGEST, AgentFile, UserFile, largest_download
from hermesops.model.messaging.message import Incoming
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.agent_files import AgentFiles
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.users.messaging.files import kinds
from hermesops.users.messaging.files.references import Reference
from hermesops.users.messaging.messengers.exchange import TooLargeError
from hermesops.users.messaging.relay_secrets import Bearer
from hermesops.users.messaging.texts.parts import line_of

log = structlog.get_logger()

Fetch = Callable[[str, UserFile], Awaitable[bytes]]
"""Reads a file of a chat at its messenger; ``TooLargeError`` for one that is too large."""

Secrets = Callable[[InstanceId], tuple[str, ...]]


class NoSuchFileError(RefusedError):
    """There is no such file for whoever asks."""


class MisnamedError(RefusedError):
    """A file is not of the kind that its name claims."""


@dataclass(frozen=True)
class MessageFiles:
    """Files both ways.

    Attributes:
        fetch: By messenger.
        secrets: Of an agent's gateway.
        answered: Called when a line for a user was queued.
    """

    incoming: IncomingMessages
    outgoing: OutgoingMessages
    agent_files: AgentFiles
    fetch: Mapping[Messenger, Fetch]
    secrets: Secrets
    answered: Callable[[], None] = lambda: None

    async def find(self, reference: Reference, bearer: Bearer | None) -> Incoming:
        """The message whose file an agent may read.

        Args:
            bearer: Of the request; ``None`` where it has none.

        Raises:
            NoSuchFileError: See there: also where the address is another agent's, too old, or its text was dropped.
            UnavailableError: The database does not answer.
        """
        incoming = await asyncio.to_thread(self.incoming.get, reference.message_id)
        if incoming is None or not await asyncio.to_thread(self._may_read, incoming, reference, bearer):
            raise NoSuchFileError("no such file")
        return incoming

    async def read(self, incoming: Incoming, reference: Reference) -> AgentFile:
        """A user's file for its agent, read at the messenger now.

        Args:
            incoming: As ``find`` returned it.

        Raises:
            TooLargeError, MisnamedError: See there; the user is told so, once.
            UnavailableError: The messenger does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        file = incoming.files[reference.index]
        try:
            content = await self.fetch[incoming.messenger](incoming.vendor_chat, file)
        except TooLargeError:
            words = kinds.too_large_words(file.name, largest_download(incoming.messenger))
            await asyncio.to_thread(self._reply, incoming, reference.index, words)
            raise
        if kinds.is_misnamed(file.name, content):
            words = f"{file.name} is not what its name says, so your agent does not get it."
            await asyncio.to_thread(self._reply, incoming, reference.index, words)
            raise MisnamedError("the file is not what its name says")
        return AgentFile("", file.name, kinds.media_type_of(file.name, content), content)

    def keep(self, instance_id: InstanceId, name: str, content: bytes) -> str:
        """Keep a file that an agent sends to one of its chats next; returns its id.

        Raises:
            TooLargeError: See there.
            MisnamedError: See there.
            UnavailableError: The database does not answer.
        """
        shown = kinds.shown_name(name)
        if not 0 < len(content) <= LARGEST:
            raise TooLargeError("a file has one byte to 25 MB")
        if kinds.is_misnamed(shown, content):
            raise MisnamedError("the file is not what its name says")
        file = self.agent_files.add(instance_id, shown, kinds.media_type_of(shown, content), content)
        if file is None:
            raise TooLargeError("the agent has sent too many files, or too much")
        return file.id

    def _may_read(self, incoming: Incoming, reference: Reference, bearer: Bearer | None) -> bool:
        if incoming.instance_id is None or reference.index >= len(incoming.files):
            return False
        secrets, now = self.secrets(incoming.instance_id), time.time()
        if not reference.is_signed(secrets):
            return False
        if bearer is None:
            return now < reference.expires_at
        return bearer.instance_id == incoming.instance_id and bearer.is_signed(secrets, now)

    def _reply(self, incoming: Incoming, index: int, words: str) -> None:
        """Queue a line for the user; the same file again adds none."""
        log.info("file_refused", instance=incoming.instance_id, message=incoming.id)
        parts = line_of(incoming.messenger, words)
        origin = f"platform/file/{incoming.id}/{index}"
        self.outgoing.add(Draft(origin, incoming.messenger, incoming.vendor_chat, parts))
        self.answered()
