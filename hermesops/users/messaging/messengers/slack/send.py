"""Sends messages by Slack's Web API.

Source: Slack, ``chat.postMessage``, "Block Kit" (sections, buttons), ``auth.test``, ``files.info``,
``files.getUploadURLExternal``, ``files.completeUploadExternal``, "Rate limits": a message a second to a channel, and
``Retry-After`` where there were more.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.messaging.files import AgentFile, UserFile, largest_download
from hermesops.model.messaging.message import Outgoing
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.commands import BUTTONS, is_request
from hermesops.users.messaging.messengers.exchange import Answer, Form, call, fetch
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Refused, Sent, Uncertain
from hermesops.wire.foreign_text import one_line

ADDRESS = "https://slack.com/api"

_VENDOR = "Slack"
_FILES = ("files.slack.com",)
_LONGEST_ID = 128
_LONGEST_SECTION = 3000
_STYLES = {"/approve": "primary", "/deny": "danger"}
_LONGEST_LIMIT_S = 3600.0
_UNKNOWN_LIMIT_S = 30.0
_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_OF_TOKEN = frozenset(
    (
        *("invalid_auth", "not_authed", "account_inactive", "token_expired", "token_revoked", "missing_scope"),
        *("no_permission", "org_login_required", "ekm_access_denied", "access_denied", "team_access_not_granted"),
    )
)
"""Errors that an operator mends: the message waits."""

_AWAY = frozenset({"service_unavailable", "request_timeout", "team_added_to_org"})
_UNCERTAIN = frozenset({"fatal_error", "internal_error"})
"""Errors in spite of which the message may be there."""


class SlackBot:
    """The bot of all users.

    Args:
        token: Read for each request, as it may be changed.
        address: Of the Web API.
    """

    def __init__(self, token: Callable[[], str], address: str = ADDRESS) -> None:
        self._token = token
        self._address = address

    async def send(self, outgoing: Outgoing) -> Delivery:
        """Send a part, once. Raises nothing: what became of it is the result."""
        try:
            if outgoing.file is not None:
                return await self._send_file(outgoing.vendor_chat, outgoing.file)
            return delivery_of(await self._call("chat.postMessage", self._body(outgoing)))
        except UnavailableError as error:
            return Away(error.message)
        except UnknownOutcomeError as error:
            return Uncertain(error.message)

    def _body(self, outgoing: Outgoing) -> Mapping[str, object]:
        return {
            "channel": outgoing.vendor_chat,
            "text": outgoing.text,
            **buttons(outgoing.text),
            "mrkdwn": True,
            "unfurl_links": False,  # no request of Slack's goes where an agent's text says
            "unfurl_media": False,
        }

    async def _send_file(self, channel: str, file: AgentFile) -> Delivery:
        """Send a file in Slack's three steps; only the last one shows it to anybody."""
        form = Form({"filename": file.name, "length": str(len(file.content))})
        answer = await self._call("files.getUploadURLExternal", form=form)
        url, id_ = answer.content.get("upload_url"), answer.content.get("file_id")
        if answer.content.get("ok") is not True or not isinstance(url, str) or not isinstance(id_, str):
            refusal = delivery_of(answer)
            return Away("no place for a file") if isinstance(refusal, Sent | Uncertain) else refusal
        if urlsplit(url).netloc not in self._hosts:
            return Refused("a place for a file that is elsewhere")
        try:
            uploaded = await call(_VENDOR, url, form=Form({}, file, ""))
        except UnknownOutcomeError as error:
            return Away(error.message)
        if uploaded.status != HTTPStatus.OK:
            return Away(f"HTTP {uploaded.status} for a file")
        body = {"files": [{"id": id_, "title": file.name}], "channel_id": channel}
        delivery = delivery_of(await self._call("files.completeUploadExternal", body))
        return Sent(id_[:_LONGEST_ID]) if isinstance(delivery, Sent) else delivery

    async def file(self, vendor_chat: str, file: UserFile) -> bytes:  # noqa: ARG002 - a file's id is enough here
        """Read a file of a person's message.

        Raises:
            RefusedError: Slack does not give it.
            TooLargeError: See there.
            UnavailableError: Slack does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        answer = await self._call("files.info", form=Form({"file": file.reference}))
        info = answer.content.get("file")
        url = info.get("url_private_download") if isinstance(info, Mapping) else None
        if not isinstance(url, str):
            error = UnavailableError if answer.status >= HTTPStatus.TOO_MANY_REQUESTS else RefusedError
            raise error(f"Slack gives no file: {one_line(str(answer.content.get('error')), longest=64)}")
        headers = {"authorization": f"Bearer {self._token()}"}
        return await fetch(_VENDOR, url, headers, hosts=self._hosts, largest=largest_download(Messenger.SLACK))

    async def name(self) -> str:
        """The bot's name at Slack.

        Raises:
            RefusedError: Slack does not take the token.
            UnavailableError: Slack does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        answer = await self._call("auth.test", {})
        name, error = answer.content.get("user"), answer.content.get("error")
        if error in _OF_TOKEN:
            hint = Hint(("secrets", "set", "slack.token", "--from", "FILE"))
            raise RefusedError("Slack does not take the token of the bot", hint=hint)
        if answer.status != HTTPStatus.OK or not isinstance(name, str):
            raise UnavailableError(f"Slack answers HTTP {answer.status}")
        return one_line(name, longest=64)

    @property
    def _hosts(self) -> tuple[str, ...]:
        """Where files are: at Slack's own host of files, or where a stand-in has its place."""
        return _FILES if self._address == ADDRESS else (urlsplit(self._address).netloc,)

    async def _call(self, method: str, body: Mapping[str, object] | None = None, form: Form | None = None) -> Answer:
        headers = {"authorization": f"Bearer {self._token()}"}
        return await call(_VENDOR, f"{self._address}/{method}", body, headers, form=form)


def buttons(text: str) -> Mapping[str, object]:
    """Parameters that show a short request for approval with buttons; none for any other text. Pure."""
    if not is_request(text) or len(text) > _LONGEST_SECTION:
        return {}
    elements = [
        {
            "type": "button",
            "action_id": command,
            "text": {"type": "plain_text", "text": label},
            "style": _STYLES[command],
        }
        for command, label in BUTTONS.items()
    ]
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    return {"blocks": [section, {"type": "actions", "elements": elements}]}


def delivery_of(answer: Answer) -> Delivery:
    """What an answer of the Web API says about a message. Pure."""
    content = answer.content
    words = one_line(str(content.get("error") or f"HTTP {answer.status}"), longest=120)
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS or words in _LIMITED:
        return Limited(_wait_in(answer.retry_after), is_for_all=True)
    if answer.status == HTTPStatus.OK and content.get("ok") is True:
        stamp = content.get("ts")
        return Sent(stamp if isinstance(stamp, str) else "")
    if words in _UNCERTAIN or (answer.status == HTTPStatus.OK and not isinstance(content.get("error"), str)):
        return Uncertain(words)
    if words in _OF_TOKEN:
        return Away(words, is_of_token=True)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or words in _AWAY:
        return Away(words)
    return Refused(words)


def _wait_in(header: str) -> float:
    """Seconds to wait, at least one: nothing is sent earlier than Slack says."""
    is_number = header.isascii() and header.isdigit()
    return min(_LONGEST_LIMIT_S, max(1.0, float(header))) if is_number else _UNKNOWN_LIMIT_S
