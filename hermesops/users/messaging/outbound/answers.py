"""Takes what agents write to chats: only to chats of their own user, in parts that the messenger takes, as rows.

The agent is told that its message is taken once the rows are there: whatever happens to the messenger afterwards, the
agent neither waits for it nor repeats anything.
"""

from dataclasses import dataclass, field

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import IncomingState, LinkedAccount
from hermesops.model.messaging.messenger import Messenger, parse_chat_name
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.agent_files import AgentFiles
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.users.messaging.files.kinds import refusal_of_upload
from hermesops.users.messaging.recovery.sweep import RECOVERED
from hermesops.users.messaging.texts.parts import line_of, parts_of

LONGEST = 200_000
"""Characters of an answer; what is beyond is cut, and the answer says so."""

HOME = "home"
"""Name of the chat that an agent writes to without a message of the user's: the one that was linked last."""

_CUT = "\n\n[The rest was cut.]"


class NotYourChatError(RefusedError):
    """The chat is none of the agent's user."""


class NotYourFileError(RefusedError):
    """The agent has sent no such file: it is elsewhere, another agent's, or was dropped."""


@dataclass(frozen=True)
class AgentMessage:
    """A message of an agent to a chat.

    Attributes:
        request_id: The agent's id of the request.
        chat: The chat's name, as agents know it.
        text: Markdown.
        fence: Of the socket that brought it.
        reply_to: Id of the message that it answers, as the agent got it; empty for none.
        file_id: Of a file that the agent has sent before, and that comes before the text; empty for none.
    """

    instance_id: InstanceId
    request_id: str
    chat: str
    text: str = field(repr=False)
    fence: int
    reply_to: str = ""
    file_id: str = ""


@dataclass(frozen=True)
class Answers:
    """The door for what agents write."""

    accounts: MessengerAccounts
    agents: UserAccounts
    incoming: IncomingMessages
    outgoing: OutgoingMessages
    files: AgentFiles

    def take(self, message: AgentMessage) -> str:
        """Queue a message; returns our id of it. Repeating a request changes nothing.

        Raises:
            NotYourChatError: See there.
            NotYourFileError: See there.
            UnavailableError: The database does not answer.
        """
        account = self._account(message)
        origin = f"{message.instance_id}/{message.request_id}"
        if message.reply_to.isdigit() and self.incoming.detail_of(int(message.reply_to)) == RECOVERED:
            return origin  # the sweep has delivered it
        text = message.text if len(message.text) <= LONGEST else message.text[:LONGEST] + _CUT
        parts, file_id = self._parts(account.messenger, message, text)
        incoming_id = self._answered(account, message)
        draft = Draft(origin, account.messenger, account.vendor_chat, parts, message.instance_id, incoming_id, file_id)
        if incoming_id is None or not self.outgoing.end_with(draft, IncomingState.ANSWERED, ""):
            self.outgoing.add(draft)
        return origin

    def _parts(self, messenger: Messenger, message: AgentMessage, text: str) -> tuple[tuple[str, ...], str]:
        """The parts of a message, and the id of the file that the first one is.

        A file that the messenger does not take becomes a line that says so.
        """
        parts = parts_of(messenger, text)
        if not message.file_id:
            return parts, ""
        head = self.files.head(message.file_id, message.instance_id)
        if head is None:
            raise NotYourFileError("no_such_file")
        file, size = head
        if refusal := refusal_of_upload(messenger, file.name, file.media_type, size):
            return (*line_of(messenger, refusal), *parts), ""
        return (file.name, *parts), file.id

    def _answered(self, account: LinkedAccount, message: AgentMessage) -> int | None:
        """The message under way that a message answers: the one that it names, or that an earlier socket brought.

        hermes-agent 0.19.0 names the message but where it was killed and goes on by itself; notices and requests for
        approval name none.
        """
        incoming = self.incoming.at_work(account.messenger, account.vendor_chat)
        if incoming is None or incoming.instance_id != message.instance_id:
            return None
        is_named = message.reply_to == str(incoming.id)
        is_resumed = not message.reply_to and incoming.fence != message.fence
        return incoming.id if is_named or is_resumed else None

    def _account(self, message: AgentMessage) -> LinkedAccount:
        parsed = parse_chat_name(message.chat)
        if message.chat == HOME:
            account = self.accounts.home_of(message.instance_id)
        else:
            account = self.accounts.of_chat(*parsed) if parsed else None
        agent = self.agents.of_user(account.user_id) if account else None
        if account is None or agent is None or agent.instance_id != message.instance_id:
            raise NotYourChatError("not_your_chat")
        return account
