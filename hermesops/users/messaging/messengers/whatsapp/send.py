"""Sends messages by WhatsApp's Cloud API.

Source: WhatsApp Business Platform, "Send messages", "Typing indicators", "Text messages", "Media" (upload, retrieve,
download), "Interactive reply buttons", "Error codes", "Throughput", "Pair rate limits", "Customer service windows",
"Webhook overrides", "Business-scoped user IDs".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.messaging.files import AgentFile, UserFile, largest_download
from hermesops.model.messaging.message import Outgoing
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.commands import BUTTONS, is_request
from hermesops.users.messaging.messengers.exchange import Answer, Form, call, fetch
from hermesops.users.messaging.messengers.whatsapp import errors
from hermesops.users.messaging.outbound.delivery import Away, Closed, Delivery, Limited, Refused, Sent, Uncertain
from hermesops.wire.foreign_text import one_line

ADDRESS = "https://graph.facebook.com/v24.0"

_VENDOR = "WhatsApp"
_FILES = ("lookaside.fbsbx.com",)
_LONGEST_WITH_BUTTONS = 1024


@dataclass(frozen=True)
class Number:
    """The platform's number.

    Attributes:
        digits: As people dial it, without ``+``.
        quality: Meta's word for it, as ``GREEN``: how often people block the number.
    """

    digits: str
    quality: str = ""


class WhatsAppBot:
    """The number of all users.

    Args:
        token: Read for each request, as it may be changed.
        phone: Id of the number at Meta.
        account: Id of the WhatsApp Business account that has the number.
        address: Of the Graph API, with its version.
    """

    def __init__(self, token: Callable[[], str], phone: str, account: str, address: str = ADDRESS) -> None:
        self._token = token
        self._phone = phone
        self._account = account
        self._address = address

    async def send(self, outgoing: Outgoing) -> Delivery:
        """Send a part, once. Raises nothing: what became of it is the result.

        Nothing is sent while WhatsApp would take no message of this chat.
        """
        if not outgoing.is_open:
            return Closed(errors.CLOSED)
        if not outgoing.address:
            return Closed("the person's number is not known here any more")
        try:
            shown = content(outgoing.text)
            if outgoing.file is not None:
                media = await self._upload(outgoing.file)
                if not isinstance(media, str):
                    return media
                shown = content_of_file(outgoing.file, media)
            body = {
                "messaging_product": "whatsapp",
                "recipient_type": "individual",
                **recipient(outgoing.address),
                **shown,
                "biz_opaque_callback_data": f"out-{outgoing.id}",
            }
            return delivery_of(await self._call(f"{self._phone}/messages", body), outgoing.tries)
        except UnavailableError as error:
            return Away(error.message)
        except UnknownOutcomeError as error:
            return Uncertain(error.message)

    async def show_typing(self, vendor_chat: str, message_id: str) -> Delivery:  # noqa: ARG002 - the message is enough
        """Mark a person's message as read, and show for 25 seconds, or until an answer comes, that one is written."""
        body = {
            "messaging_product": "whatsapp",
            "status": "read",
            "message_id": message_id,
            "typing_indicator": {"type": "text"},
        }
        try:
            answer = await self._call(f"{self._phone}/messages", body)
        except UnavailableError as error:
            return Away(error.message)
        except UnknownOutcomeError as error:
            return Uncertain(error.message)
        return Sent("") if answer.content.get("success") is True else delivery_of(answer, 0)

    async def _upload(self, file: AgentFile) -> str | Delivery:
        """Give a file to Meta, who shows it to nobody yet; its id there, or why there is none."""
        form = Form({"messaging_product": "whatsapp", "type": file.media_type}, file)
        try:
            answer = await self._call(f"{self._phone}/media", form=form)
        except UnknownOutcomeError as error:
            return Away(error.message)
        id_ = answer.content.get("id")
        if answer.status == HTTPStatus.OK and isinstance(id_, str) and id_:
            return id_
        refusal = delivery_of(answer, 0)
        return Away("no place for a file") if isinstance(refusal, Sent | Uncertain) else refusal

    async def file(self, vendor_chat: str, file: UserFile) -> bytes:  # noqa: ARG002 - a file's id is enough here
        """Read a file of a person's message, whose address Meta gives for five minutes.

        Raises:
            RefusedError: Meta does not give it.
            TooLargeError: See there.
            UnavailableError: Meta does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        answer = await self._call(file.reference)
        url = answer.content.get("url")
        if answer.status != HTTPStatus.OK or not isinstance(url, str):
            raise _not_told(answer)
        hosts = _FILES if self._address == ADDRESS else (urlsplit(self._address).netloc,)
        headers = {"authorization": f"Bearer {self._token()}"}
        return await fetch(_VENDOR, url, headers, hosts=hosts, largest=largest_download(Messenger.WHATSAPP))

    async def number(self) -> Number:
        """The number as Meta has it.

        Raises:
            RefusedError: Meta does not take the token.
            UnavailableError: Meta does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        answer = await self._call(f"{self._phone}?fields=display_phone_number,quality_rating")
        shown = answer.content.get("display_phone_number")
        if answer.status != HTTPStatus.OK or not isinstance(shown, str):
            raise _not_told(answer)
        digits = "".join(each for each in shown if each.isascii() and each.isdigit())[:20]
        return Number(digits, one_line(str(answer.content.get("quality_rating") or ""), longest=16))

    async def webhook(self) -> str:
        """The address to which WhatsApp sends the account's reports by our app; empty for the app's own.

        Raises:
            As ``number``.
        """
        answer = await self._call(f"{self._account}/subscribed_apps")
        rows = answer.content.get("data")
        if answer.status != HTTPStatus.OK or not isinstance(rows, list):
            raise _not_told(answer)
        urls = (row.get("override_callback_uri") for row in rows if isinstance(row, Mapping))
        return next((one_line(url, longest=256) for url in urls if isinstance(url, str) and url), "")

    async def set_webhook(self, url: str, token: str) -> None:
        """Have WhatsApp send the account's reports to an address, which it asks at once; repeating changes nothing.

        Raises:
            RefusedError: Meta does not take the token, or the address.
            UnavailableError: Meta does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        body = {"override_callback_uri": url, "verify_token": token}
        answer = await self._call(f"{self._account}/subscribed_apps", body)
        if answer.status == HTTPStatus.BAD_REQUEST and errors.code_in(answer.content) not in errors.OF_TOKEN:
            raise RefusedError(f"WhatsApp does not take the address {url}: {errors.words_in(answer.content)}")
        if answer.status != HTTPStatus.OK or answer.content.get("success") is not True:
            raise _not_told(answer)

    async def _call(self, path: str, body: Mapping[str, object] | None = None, form: Form | None = None) -> Answer:
        headers = {"authorization": f"Bearer {self._token()}"}
        return await call(_VENDOR, f"{self._address}/{path}", body, headers, form=form)


def content_of_file(file: AgentFile, media: str) -> Mapping[str, object]:
    """Parameters of a file that Meta has. Pure."""
    kind = file.media_type.partition("/")[0]
    if kind in {"image", "audio", "video"}:
        return {"type": kind, kind: {"id": media}}
    return {"type": "document", "document": {"id": media, "filename": file.name}}


def content(text: str) -> Mapping[str, object]:
    """Parameters of a text: with buttons where it is a short request for approval. Pure."""
    if is_request(text) and len(text.encode("utf-16-le")) <= 2 * _LONGEST_WITH_BUTTONS:
        buttons = [{"type": "reply", "reply": {"id": id_, "title": title}} for id_, title in BUTTONS.items()]
        interactive = {"type": "button", "body": {"text": text}, "action": {"buttons": buttons}}
        return {"type": "interactive", "interactive": interactive}
    # No request of Meta's goes where an agent's text says.
    return {"type": "text", "text": {"body": text, "preview_url": False}}


def recipient(address: str) -> Mapping[str, str]:
    """Parameters that name a person: by the number, or by the business-scoped id of one who shows no number. Pure."""
    return {"to": address} if address.isdigit() else {"recipient": address}


def delivery_of(answer: Answer, tries: int) -> Delivery:
    """What an answer of the Cloud API says about a message. Pure.

    Args:
        tries: How often the part was sent before.
    """
    content, status = answer.content, answer.status
    if status == HTTPStatus.OK and (id_ := _id_in(content.get("messages"))):
        return Sent(id_)
    code, words = errors.code_in(content), errors.words_in(content) or f"HTTP {status}"
    if code is not None:
        return errors.delivery_of_code(code, words, tries)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Limited(errors.THROUGHPUT_S, is_for_all=True)
    if status == HTTPStatus.OK:  # taken, and the answer says nothing that can be read
        return Uncertain(words)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Away(words, is_of_token=True)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Away(words)
    return Refused(words)


def _id_in(messages: Any) -> str:  # noqa: ANN401 - JSON
    first = messages[0] if isinstance(messages, list) and messages else None
    id_ = first.get("id") if isinstance(first, Mapping) else None
    return id_ if isinstance(id_, str) and len(id_) <= 128 else ""  # noqa: PLR2004 - of its column


def _not_told(answer: Answer) -> RefusedError | UnavailableError:
    """The error for an answer without a result."""
    if errors.code_in(answer.content) in errors.OF_TOKEN or answer.status == HTTPStatus.UNAUTHORIZED:
        hint = Hint(("secrets", "set", "whatsapp.token", "--from", "FILE"))
        return RefusedError(f"WhatsApp does not take the token: {errors.words_in(answer.content)}", hint=hint)
    return UnavailableError(f"WhatsApp answers HTTP {answer.status}: {errors.words_in(answer.content)}")
