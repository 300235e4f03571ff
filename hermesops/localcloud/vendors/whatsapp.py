"""WhatsApp for the local world: one number, people who write to it, and the limits that Meta documents.

It counts what broke a limit. Nothing is kept on disk: with the world's end every chat is gone.

Source: WhatsApp Business Platform, "Send messages", "Media" (ids, addresses for five minutes, sizes by type),
"messages webhook reference", "Status messages webhook reference", "Error codes", "Throughput", "Pair rate limits",
"Customer service windows", "Webhook overrides", "Business-scoped user IDs".
"""

import hmac
import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.localcloud.vendors.chat_logs import Changes, ChatLog, Postbox, Report
from hermesops.localcloud.vendors.users_door import UsersDoor
from hermesops.localcloud.vendors.vendor_files import VendorFile, VendorFiles, form_of
from hermesops.model.messaging.messenger import LIMITS, WINDOWS, Messenger

PREFIX = "/whatsapp"
WEBHOOK_PATH = "/webhooks/whatsapp"
"""Path of the users' API that takes reports."""

NUMBER, PHONE, ACCOUNT = "15550001111", "106540352242922", "102290129340398"
"""The number, its id, and the id of the account that has it."""

_PAIR_S, _PAIR_BURST = 6.0, 45
"""Seconds between two messages to a person, and messages that may come at once."""

_A_SECOND = 80
_ANSWER_S = 10.0
_AGAIN_S = 0.5
_MOST_TRIES = 60
_LONGEST_WITH_BUTTONS, _MOST_BUTTONS = 1024, 3
_ADDRESS_S = 300.0
"""Seconds for which the address of a file is valid."""

_TYPING_S = 25.0
_MB = 1_000_000
_OFFICE = "application/vnd.openxmlformats-officedocument."
_SIZES: Mapping[str, int] = {
    **dict.fromkeys(("image/jpeg", "image/png"), 5 * _MB),
    **dict.fromkeys(("audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg"), 16 * _MB),
    **dict.fromkeys(("video/mp4", "video/3gp"), 16 * _MB),
    **dict.fromkeys(("text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel"), 100 * _MB),
    f"{_OFFICE}wordprocessingml.document": 100 * _MB,
    f"{_OFFICE}spreadsheetml.sheet": 100 * _MB,
    f"{_OFFICE}presentationml.presentation": 100 * _MB,
}
"""Bytes of a file that the number may send, by type."""


@dataclass
class Person:
    """A person who writes to the number.

    Attributes:
        number: Telephone number, with its country's code.
        user_id: Business-scoped id.
        is_hidden: Whether WhatsApp shows the id alone.
        heard_at: When the person wrote last, by the stand-in's clock.
        is_blocked: Whether the person has blocked the number, which WhatsApp tells nobody.
        typing: How often the number showed that it writes, and ``typing_until`` until when that is shown.
        messages: Ids of what the person wrote; ``read`` has those that are marked as read.
    """

    number: str
    user_id: str
    name: str
    log: ChatLog = field(repr=False)
    is_hidden: bool = False
    heard_at: float = float("-inf")
    is_blocked: bool = False
    typing: int = 0
    typing_until: float = float("-inf")
    messages: list[str] = field(default_factory=list, repr=False)
    read: set[str] = field(default_factory=set, repr=False)
    _full_at: float = float("-inf")

    def is_too_fast(self, now: float) -> bool:
        """Whether too many messages come to this person; one that is taken counts."""
        full_at = max(now, self._full_at)
        if full_at - now > (_PAIR_BURST - 1) * _PAIR_S:
            return True
        self._full_at = full_at + _PAIR_S
        return False


class LocalWhatsApp:
    """The WhatsApp of one world.

    Args:
        token: Of the system user that may write by the number.
        secret: Of the app, by which reports are signed.
        clock: Seconds of a clock that does not go back.
        webhook: Takes reports, until ``subscribed_apps`` says otherwise.
        heard: Called for each report that was taken.
        door: Says where reports go, at each.
    """

    def __init__(
        self,
        token: str = "",
        secret: str = "",
        clock: Callable[[], float] = time.monotonic,
        *,
        webhook: str = "",
        heard: Callable[[], None] = lambda: None,
        door: Callable[[], UsersDoor] = UsersDoor,
    ) -> None:
        self.token = token or f"EAA{secrets.token_urlsafe(48)}"
        self.secret = secret or secrets.token_hex(16)
        self.people: dict[str, Person] = {}
        self.changes = Changes()
        self.broken: Counter[str] = Counter()
        self.webhook = webhook
        self.clock = clock
        self._heard, self._door = heard, door
        self._all: deque[float] = deque()
        self._limited_until, self._is_known = float("-inf"), False
        self.files = VendorFiles()
        self._addresses: dict[str, tuple[str, float]] = {}
        self._postbox = Postbox(self.deliver)
        self.post = self._postbox.post
        self.open, self.close = self._postbox.open, self._postbox.close
        self.report: Callable[[Report], object] = self.post
        """Takes reports that a message of the number failed."""

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        return [
            Route(f"/{PHONE}", self._number, methods=["GET"]),
            Route(f"/{PHONE}/messages", self._send, methods=["POST"]),
            Route(f"/{PHONE}/media", self._upload, methods=["POST"]),
            Route("/media/{address}", self._file, methods=["GET"]),
            Route("/{id:int}", self._media, methods=["GET"]),
            Route(f"/{ACCOUNT}/subscribed_apps", self._webhooks, methods=["GET", "POST"]),
        ]

    def person(self, number: str, name: str = "Ada") -> Person:
        """A person by the telephone number."""
        if number not in self.people:
            user_id = f"US.{sha256(number.encode()).hexdigest()[:16]}"
            self.people[number] = Person(number, user_id, name, ChatLog(self.changes))
        return self.people[number]

    def message(self, number: str, text: str, **more: Any) -> Report:  # noqa: ANN401 - JSON
        """The report of a message that a person writes."""
        person = self.person(number)
        person.heard_at = self.clock()
        person.log.add(text, is_of_bot=False)
        known = {} if person.is_hidden else {"from": number}
        contact = {"profile": {"name": person.name}, "user_id": person.user_id}
        message = {
            **known,
            "from_user_id": person.user_id,
            "id": f"wamid.{secrets.token_urlsafe(24)}",
            "timestamp": str(int(time.time())),
            **({} if "type" in more else {"type": "text", "text": {"body": text}}),
            **more,
        }
        person.messages.append(str(message["id"]))
        return _report({"contacts": [contact if person.is_hidden else {**contact, "wa_id": number}]}, [message], ())

    def sending(self, number: str, file: VendorFile, kind: str = "document", caption: str = "") -> Report:
        """The report of a file that a person sends: an ``image``, ``audio``, ``video`` or ``document``."""
        content = {"id": self.files.add(file), "mime_type": file.media_type, "sha256": sha256(file.content).hexdigest()}
        content |= {"filename": file.name} if kind == "document" else {}
        content |= {"caption": caption} if caption else {}
        return self.message(number, file.shown, type=kind, **{kind: content})

    def pressing(self, number: str, id_: str, title: str) -> Report:
        """The report of a button that a person presses."""
        reply = {"type": "button_reply", "button_reply": {"id": id_, "title": title}}
        return self.message(number, title, type="interactive", interactive=reply)

    def limit(self, seconds: float) -> None:
        """Take no message of the number for a time, as Meta does where there were too many."""
        self._limited_until = self.clock() + seconds

    def signed(self, body: bytes) -> Mapping[str, str]:
        """Headers of a report."""
        return {"x-hub-signature-256": f"sha256={hmac.new(self.secret.encode(), body, sha256).hexdigest()}"}

    async def deliver(self, report: Report) -> int:
        """Send a report to the webhook until it is answered with success, as Meta does; returns the attempts.

        Raises:
            TimeoutError: It was not.
        """
        body = json.dumps(dict(report)).encode()
        headers = {"content-type": "application/json", **self.signed(body)}
        for attempt in range(1, _MOST_TRIES + 1):
            response = await self._asked("POST", self.webhook, content=body, headers=headers)
            if response is not None and response.is_success:
                self._heard()
                return attempt
            await pause(_AGAIN_S)
        raise TimeoutError("the webhook takes nothing")

    # The Graph API

    async def _number(self, request: Request) -> Response:
        if not self._is_signed(request):
            return _failure(190, "Invalid OAuth access token", HTTPStatus.UNAUTHORIZED)
        return JSONResponse(
            {"id": PHONE, "display_phone_number": f"+{NUMBER[0]} {NUMBER[1:]}", "quality_rating": "GREEN"}
        )

    async def _webhooks(self, request: Request) -> Response:
        if not self._is_signed(request):
            return _failure(190, "Invalid OAuth access token", HTTPStatus.UNAUTHORIZED)
        if request.method == "GET":
            webhook = self._door().address_of(self.webhook)
            own = {"override_callback_uri": webhook} if webhook else {}
            return JSONResponse({"data": [{"whatsapp_business_api_data": {"name": "local"}, **own}]})
        body = await request.json()
        if not await self._is_ours(body["override_callback_uri"], body["verify_token"]):
            return _failure(2200, "Callback verification failed")
        self.webhook = body["override_callback_uri"]
        return JSONResponse({"success": True})

    async def _is_ours(self, url: str, token: str) -> bool:
        challenge = str(secrets.randbelow(10**9))
        query = {"hub.mode": "subscribe", "hub.verify_token": token, "hub.challenge": challenge}
        response = await self._asked("GET", url, params=query)
        return response is not None and response.is_success and response.text == challenge

    async def _asked(self, method: str, url: str, **content: Any) -> httpx.Response | None:  # noqa: ANN401 - as httpx
        """The webhook's answer; ``None`` without one."""
        try:
            return await self._door().request(method, url, within_s=_ANSWER_S, **content)
        except (httpx.HTTPError, HermesError):
            return None

    async def _upload(self, request: Request) -> Response:
        if not self._is_signed(request):
            return _failure(190, "Invalid OAuth access token", HTTPStatus.UNAUTHORIZED)
        fields, file = await form_of(request, "file")
        is_taken = file is not None and 0 < len(file.content) <= _SIZES.get(file.media_type, 0)
        if file is None or not is_taken or fields.get("messaging_product") != "whatsapp":
            self.broken["file"] += 1
            return _failure(100, "Param file must be a file of a supported type")
        return JSONResponse({"id": self.files.add(file)})

    async def _media(self, request: Request) -> Response:
        if not self._is_signed(request):
            return _failure(190, "Invalid OAuth access token", HTTPStatus.UNAUTHORIZED)
        id_, address = str(request.path_params["id"]), secrets.token_urlsafe(16)
        if self.files.get(id_) is None:
            return _failure(100, "Object does not exist")
        self._addresses[address] = id_, self.clock() + _ADDRESS_S
        url = str(request.url.replace(path=f"{request.scope.get('root_path', '')}/media/{address}"))
        return JSONResponse({"messaging_product": "whatsapp", "url": url, "id": id_})

    async def _file(self, request: Request) -> Response:
        id_, until = self._addresses.get(request.path_params["address"], ("", 0.0))
        if not self._is_signed(request) or self.clock() > until:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        return self.files.answer(id_)

    async def _send(self, request: Request) -> Response:
        if not self._is_signed(request):
            return _failure(190, "Invalid OAuth access token", HTTPStatus.UNAUTHORIZED)
        body = await request.json()
        if body.get("status") == "read":
            return self._read(body)
        person = self._named(body)
        text, buttons = _content(body)
        file = self.files.get(str(body.get(str(body.get("type")), {}).get("id")))
        text = file.shown if file else text
        if (
            person is None
            or not text.strip()
            or LIMITS[Messenger.WHATSAPP].length(text) > LIMITS[Messenger.WHATSAPP].most
        ):
            self.broken["text" if person else "recipient"] += 1
            return _failure(100, "Invalid parameter")
        self.broken["preview"] += body["type"] == "text" and body["text"].get("preview_url") is not False
        self.broken["buttons"] += bool(buttons) and (len(text) > _LONGEST_WITH_BUTTONS or len(buttons) > _MOST_BUTTONS)
        self.broken += Counter()  # drops zeros
        if refusal := self._limit_of(person):
            return refusal
        return self._taken(person, text, buttons, file, str(body.get("biz_opaque_callback_data", "")))

    def _read(self, body: Mapping[str, Any]) -> Response:
        """Mark a message as read, and show the number as writing where that is wanted."""
        id_ = str(body.get("message_id"))
        person = next((each for each in self.people.values() if id_ in each.messages), None)
        if person is None or body.get("typing_indicator", {"type": "text"}) != {"type": "text"}:
            self.broken["read"] += 1
            return _failure(131009, "Parameter value is not valid")
        person.read.add(id_)
        if "typing_indicator" in body:
            person.typing += 1
            person.typing_until = self.clock() + _TYPING_S
        self.changes.add()
        return JSONResponse({"success": True})

    def _taken(
        self, person: Person, text: str, buttons: Mapping[str, str], file: VendorFile | None, ours: str
    ) -> Response:
        """Take a message; what becomes of it is reported later, as Meta does."""
        id_ = f"wamid.{secrets.token_urlsafe(24)}"
        status = {"id": id_, "recipient_user_id": person.user_id, "timestamp": str(int(time.time()))}
        status |= {"biz_opaque_callback_data": ours} if ours else {}
        window = WINDOWS[Messenger.WHATSAPP].total_seconds()
        if self.clock() - person.heard_at >= window:
            self.broken["window"] += 1
            self.report(_failed(status, 131047, "Re-engagement message"))
        elif person.is_blocked:
            self.report(_failed(status, 131026, "Message undeliverable"))
        else:
            person.typing_until = float("-inf")
            person.log.add(text, is_of_bot=True, buttons=buttons, file=file)
        contact = {"input": person.number, "wa_id": person.number}
        return JSONResponse({"messaging_product": "whatsapp", "contacts": [contact], "messages": [{"id": id_}]})

    def _limit_of(self, person: Person) -> Response | None:
        now = self.clock()
        if now < self._limited_until:
            self.broken["ignored"] += self._is_known
            self.broken += Counter()
            self._is_known = True
            return _failure(130429, "Rate limit hit", HTTPStatus.TOO_MANY_REQUESTS)
        self._is_known = False
        while self._all and self._all[0] <= now - 1.0:
            self._all.popleft()
        if len(self._all) >= _A_SECOND:
            self.broken["pace"] += 1
            return _failure(130429, "Rate limit hit", HTTPStatus.TOO_MANY_REQUESTS)
        if person.is_too_fast(now):
            self.broken["pair"] += 1
            words = "(Business Account, Consumer Account) pair rate limit hit"
            return _failure(131056, words, HTTPStatus.TOO_MANY_REQUESTS)
        self._all.append(now)
        return None

    def _named(self, body: Mapping[str, Any]) -> Person | None:
        if body.get("messaging_product") != "whatsapp":
            return None
        if number := body.get("to"):
            return self.people.get(number)
        return next((each for each in self.people.values() if each.user_id == body.get("recipient")), None)

    def _is_signed(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"


def _content(body: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    """Text and buttons of a message."""
    if body.get("type") == "interactive":
        replies = [button["reply"] for button in body["interactive"]["action"]["buttons"]]
        return body["interactive"]["body"]["text"], {reply["id"]: reply["title"] for reply in replies}
    return (body["text"]["body"] if body.get("type") == "text" else ""), {}


def merged(*reports: Report) -> Report:
    """Several reports in one body, as Meta sends them where many come at once."""
    changes = [change for report in reports for entry in report["entry"] for change in entry["changes"]]
    return {"object": "whatsapp_business_account", "entry": [{"id": ACCOUNT, "changes": changes}]}


def _failed(status: Mapping[str, Any], code: int, title: str) -> Report:
    errors = [{"code": code, "title": title, "message": title}]
    return _report({}, (), [{**status, "status": "failed", "errors": errors}])


def _report(more: Mapping[str, Any], messages: Any, statuses: Any) -> Report:  # noqa: ANN401 - JSON
    metadata = {"display_phone_number": NUMBER, "phone_number_id": PHONE}
    value = {"messaging_product": "whatsapp", "metadata": metadata, **more}
    value |= {"messages": list(messages)} if messages else {}
    value |= {"statuses": list(statuses)} if statuses else {}
    change = {"field": "messages", "value": value}
    return {"object": "whatsapp_business_account", "entry": [{"id": ACCOUNT, "changes": [change]}]}


def _failure(code: int, words: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> JSONResponse:
    error = {"message": f"(#{code}) {words}", "type": "OAuthException", "code": code, "fbtrace_id": "A1"}
    return JSONResponse({"error": error}, status)
