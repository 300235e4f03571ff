"""Discord for the local world: one application, people who write to its bot, and the limits that Discord documents.

It counts what broke a limit. Nothing is kept on disk: with the world's end every chat is gone.

Source: Discord, "Create Message", "Uploading Files", "Attachment Object", "Rate Limits", "Get Gateway Bot", "Receiving
and Responding to Interactions", "Edit Current Application".
"""

import asyncio
import json
import math
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import httpx
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.localcloud.vendors.chat_logs import Changes, ChatLog, Postbox, Report
from hermesops.localcloud.vendors.discord_gateway import LocalGateway
from hermesops.localcloud.vendors.users_door import UsersDoor
from hermesops.localcloud.vendors.vendor_files import VendorFile, VendorFiles, form_of
from hermesops.model.messaging.messenger import LIMITS, Messenger

PREFIX = "/discord"
APP = "1234567890123456789"
"""Id of the application, and of its bot."""

WEBHOOK_PATH = "/webhooks/discord"
"""Path of the users' API that takes interactions."""

_BURST, _BURST_S = 5, 5.0
"""Messages of a chat in so many seconds."""

_A_SECOND = 50
_ANSWER_S = 3.0
_TYPING_S = 10.0
_SESSION_S, _LOOK_S = 60.0, 0.2
_EPOCH_MS = 1_420_070_400_000
_LARGEST_FILE = 10 << 20

log = structlog.get_logger()


@dataclass
class Person:
    """A person who writes to the bot.

    Attributes:
        id: Of the person; ``chat`` is that of their chat with the bot.
        is_blocked: Whether the person takes no messages of the bot.
        typing: How often the bot showed that it writes, and ``typing_until`` until when that is shown.
    """

    id: str
    chat: str
    name: str
    log: ChatLog = field(repr=False)
    is_blocked: bool = False
    typing: int = 0
    typing_until: float = 0.0
    kept: list[Report] = field(default_factory=list, repr=False)
    recent: deque[float] = field(default_factory=deque)


class LocalDiscord:
    """The Discord of one world.

    Args:
        token: Of the bot.
        clock: Seconds of a clock that does not go back.
        webhook: Takes interactions, until the application is changed.
        heard: Called for each message of a person.
        door: Says where interactions go, at each.
    """

    def __init__(
        self,
        token: str = "",
        clock: Callable[[], float] = time.monotonic,
        *,
        webhook: str = "",
        heard: Callable[[], None] = lambda: None,
        door: Callable[[], UsersDoor] = UsersDoor,
    ) -> None:
        self.token = token or f"{secrets.token_urlsafe(24)}.{secrets.token_urlsafe(6)}.{secrets.token_urlsafe(27)}"
        self.people: dict[str, Person] = {}
        self.changes = Changes()
        self.broken: Counter[str] = Counter()
        self.webhook = webhook
        self.clock = clock
        self.commands: list[Mapping[str, Any]] = []
        self.gateway = LocalGateway(lambda: self.token, self.broken)
        # Of the token, which is kept: a platform has the public one in its settings, also after a start of the world.
        self._key = Ed25519PrivateKey.from_private_bytes(sha256(self.token.encode()).digest())
        self._heard, self._door = heard, door
        self._pressing: set[asyncio.Task[None]] = set()
        self._postbox = Postbox(self.deliver)
        self.post = self._postbox.post
        self.files = VendorFiles("9")
        self._all: deque[float] = deque()
        self._nonces: dict[str, str] = {}
        self._limited_until, self._is_known = float("-inf"), False
        self._ids = int(time.time() * 1000 - _EPOCH_MS) << 22

    @property
    def public_key(self) -> str:
        """By which interactions are signed."""
        return self._key.public_key().public_bytes_raw().hex()

    async def open(self) -> None:
        """Open the gateway, and deliver what people write to its session."""
        await self.gateway.open()
        self._postbox.open()

    async def close(self) -> None:
        """Close the gateway."""
        await self._postbox.close()
        await self.gateway.close()

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        return [
            Route("/gateway/bot", self._entrance, methods=["GET"]),
            Route("/applications/@me", self._application, methods=["GET", "PATCH"]),
            Route("/applications/{app}/commands", self._set_commands, methods=["PUT"]),
            Route("/channels/{chat}/messages", self._read, methods=["GET"]),
            Route("/channels/{chat}/messages", self._write, methods=["POST"]),
            Route("/channels/{chat}/messages/{message}", self._read_one, methods=["GET"]),
            Route("/attachments/{id}", self._file, methods=["GET"]),
            Route("/channels/{chat}/typing", self._type, methods=["POST"]),
        ]

    def person(self, id_: str, name: str = "Ada") -> Person:
        """A person by their id."""
        if id_ not in self.people:
            self.people[id_] = Person(id_, f"9{id_}", name, ChatLog(self.changes))
        return self.people[id_]

    def message(self, id_: str, text: str, **more: Any) -> Report:  # noqa: ANN401 - JSON
        """The message that a person writes to the bot, as it stays in their chat."""
        person = self.person(id_)
        person.log.add(text, is_of_bot=False)
        author = {"id": id_, "username": person.name.lower(), "global_name": person.name}
        message = {
            "id": self._next_id(),
            "channel_id": person.chat,
            "type": 0,
            "author": author,
            "content": text,
            **more,
        }
        person.kept.append(message)
        return message

    def sending(self, id_: str, files: Sequence[VendorFile], text: str = "") -> Report:
        """The message of a person with files."""
        attachments = [
            {
                "id": self.files.add(file),
                "filename": file.name,
                "content_type": file.media_type,
                "size": len(file.content),
            }
            for file in files
        ]
        return self.message(id_, text, attachments=attachments)

    async def deliver(self, message: Report) -> None:
        """Send a message to the session of the bot; before there was one, a local world waits for it.

        Raises:
            TimeoutError: No session began.
        """
        self._heard()
        async with asyncio.timeout(_SESSION_S):
            while not self.gateway.has_session:
                await pause(_LOOK_S)
        self.gateway.dispatch("MESSAGE_CREATE", message)

    def command(self, id_: str, name: str, value: str = "", **more: Any) -> Report:  # noqa: ANN401 - JSON
        """The interaction of a command that a person chooses in their chat with the bot."""
        person = self.person(id_)
        options = {"options": [{"type": 3, "name": "code", "value": value}]} if value else {}
        user = {"id": id_, "username": person.name.lower(), "global_name": person.name}
        return {
            "type": 2,
            "id": self._next_id(),
            "application_id": APP,
            "token": secrets.token_urlsafe(24),
            "channel_id": person.chat,
            "context": 1,
            "user": user,
            "data": {"name": name, "type": 1, **options},
            **more,
        }

    def pressing(self, id_: str, custom_id: str) -> Report:
        """The interaction of a button that a person presses."""
        return {**self.command(id_, ""), "type": 3, "data": {"custom_id": custom_id, "component_type": 2}}

    def press(self, id_: str, custom_id: str) -> bool:
        """Press a button as a person."""
        task = asyncio.ensure_future(self._pressed(self.pressing(id_, custom_id)))
        self._pressing.add(task)
        task.add_done_callback(self._pressing.discard)
        return True

    async def _pressed(self, interaction: Report) -> None:
        try:
            await self.interact(interaction)
        except TimeoutError:
            log.warning("interaction_failed")

    def signed(self, body: bytes, at: float | None = None) -> Mapping[str, str]:
        """Headers of an interaction. ``at``: seconds since 1970; now by default."""
        stamp = str(int(time.time() if at is None else at))
        signature = self._key.sign(stamp.encode() + body).hex()
        return {"x-signature-timestamp": stamp, "x-signature-ed25519": signature}

    async def interact(self, interaction: Report) -> Mapping[str, Any]:
        """Send an interaction to the webhook, once, as Discord does; returns the answer.

        Raises:
            TimeoutError: It was not answered with success within three seconds.
        """
        response = await self._posted(self.webhook, interaction, self.signed(json.dumps(dict(interaction)).encode()))
        if response is None or not response.is_success:
            raise TimeoutError("the application did not respond")
        self._heard()
        answer: Mapping[str, Any] = response.json()
        return answer

    def limit(self, seconds: float) -> None:
        """Take no request of the bot for a time, as Discord does where there were too many."""
        self._limited_until = self.clock() + seconds

    async def _posted(self, url: str, content: Report, headers: Mapping[str, str]) -> httpx.Response | None:
        body = json.dumps(dict(content)).encode()
        named = {"content-type": "application/json", **headers}
        try:
            return await self._door().request("POST", url, content=body, headers=named, within_s=_ANSWER_S)
        except (httpx.HTTPError, HermesError):
            return None

    def _next_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    # The HTTP API

    async def _entrance(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        limit = {"total": 1000, "remaining": self.gateway.sessions_left, "reset_after": 3_600_000, "max_concurrency": 1}
        return JSONResponse({"url": self.gateway.url, "shards": 1, "session_start_limit": limit})

    async def _application(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        if request.method == "PATCH":
            url = (await request.json())["interactions_endpoint_url"]
            if not await self._is_ours(url):
                return _failure(HTTPStatus.BAD_REQUEST, 50035, "Invalid Form Body")
            self.webhook = url
        own = {
            "interactions_endpoint_url": self._door().address_of(self.webhook) or None,
            "verify_key": self.public_key,
        }
        return JSONResponse({"id": APP, "name": "local hermes", **own})

    async def _is_ours(self, url: str) -> bool:
        """Whether an address answers a question that is signed, and refuses one that is not."""
        ping: Report = {"type": 1, "id": self._next_id()}
        good = self.signed(json.dumps(dict(ping)).encode())
        forged = {**good, "x-signature-ed25519": "0" * 128}
        answer, refused = await self._posted(url, ping, good), await self._posted(url, ping, forged)
        if answer is None or refused is None or not answer.is_success:
            return False
        return bool(answer.json() == {"type": 1}) and refused.status_code == HTTPStatus.UNAUTHORIZED

    async def _set_commands(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        self.commands = await request.json()
        return JSONResponse(self.commands)

    async def _read(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        person = self._of_chat(request)
        if person is None:
            return _failure(HTTPStatus.NOT_FOUND, 10003, "Unknown Channel")
        after, most = int(request.query_params.get("after", "0")), int(request.query_params.get("limit", "50"))
        later = [message for message in person.kept if int(message["id"]) > after][:most]
        return JSONResponse([dict(message) for message in reversed(later)])

    async def _read_one(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        person = self._of_chat(request)
        kept = person.kept if person else ()
        message = next((dict(each) for each in kept if each["id"] == request.path_params["message"]), None)
        if message is None:
            return _failure(HTTPStatus.NOT_FOUND, 10008, "Unknown Message")
        root = request.scope.get("root_path", "")
        for each in message.get("attachments", ()):
            each["url"] = str(request.url.replace(path=f"{root}/attachments/{each['id']}", query=""))
        return JSONResponse(message)

    async def _file(self, request: Request) -> Response:
        return self.files.answer(request.path_params["id"])

    async def _type(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        person = self._of_chat(request)
        if person is None or person.is_blocked:
            return _failure(HTTPStatus.FORBIDDEN, 50007, "Cannot send messages to this user")
        person.typing += 1
        person.typing_until = self.clock() + _TYPING_S
        self.changes.add()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _write(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        body, file = await self._posted_message(request)
        person = self._of_chat(request)
        if person is None or person.is_blocked:
            words = "Cannot send messages to this user" if person else "Unknown Channel"
            status = HTTPStatus.FORBIDDEN if person else HTTPStatus.NOT_FOUND
            return _failure(status, 50007 if person else 10003, words)
        text = file.shown if file else str(body.get("content", ""))
        if file is not None and not 0 < len(file.content) <= _LARGEST_FILE:
            self.broken["file"] += 1
            return _failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, 40005, "Request entity too large")
        if not text.strip() or LIMITS[Messenger.DISCORD].length(text) > LIMITS[Messenger.DISCORD].most:
            self.broken["text"] += 1
            return _failure(HTTPStatus.BAD_REQUEST, 50035, "Invalid Form Body")
        self._break("mention", body.get("allowed_mentions") != {"parse": []})
        self._break("embed", not int(body.get("flags", 0)) & 4)
        buttons = [button for row in body.get("components", ()) for button in row["components"]]
        labels = {button["custom_id"]: button["label"] for button in buttons}
        shown = partial(person.log.add, text, is_of_bot=True, buttons=labels, file=file)
        return self._taken(person, shown, str(body.get("nonce", "")), is_enforced=body.get("enforce_nonce") is True)

    async def _posted_message(self, request: Request) -> tuple[Mapping[str, Any], VendorFile | None]:
        if not request.headers.get("content-type", "").startswith("multipart/"):
            return await request.json(), None
        fields, file = await form_of(request, "files[0]")
        return json.loads(fields["payload_json"]), file

    def _taken(self, person: Person, show: Callable[[], int], nonce: str, *, is_enforced: bool) -> Response:
        left = self._left(person)
        if left < 0:
            self.broken["pace"] += 1
            return self._limited(person.recent[0] + _BURST_S - self.clock(), is_global=False)
        headers = {
            "x-ratelimit-limit": str(_BURST),
            "x-ratelimit-remaining": str(left),
            "x-ratelimit-reset-after": f"{max(0.0, person.recent[0] + _BURST_S - self.clock()):.3f}",
        }
        key = f"{person.id}/{nonce}"
        if is_enforced and nonce and key in self._nonces:
            return JSONResponse({"id": self._nonces[key], "nonce": nonce}, headers=headers)
        id_ = self._nonces[key] = self._next_id()
        show()
        person.typing_until = 0.0
        return JSONResponse({"id": id_, "channel_id": person.chat, "nonce": nonce}, headers=headers)

    def _left(self, person: Person) -> int:
        """How many more messages the chat takes now; one that it takes counts, -1 for one that it does not."""
        now = self.clock()
        while person.recent and person.recent[0] <= now - _BURST_S:
            person.recent.popleft()
        if len(person.recent) >= _BURST:
            return -1
        person.recent.append(now)
        return _BURST - len(person.recent)

    def _of_chat(self, request: Request) -> Person | None:
        chat = request.path_params["chat"]
        return next((each for each in self.people.values() if each.chat == chat), None)

    def _refusal(self, request: Request) -> Response | None:
        """Why a request is refused; ``None`` where it is not."""
        if request.headers.get("authorization") != f"Bot {self.token}":
            return _failure(HTTPStatus.UNAUTHORIZED, 0, "401: Unauthorized")
        self._break("agent", not request.headers.get("user-agent", "").startswith("DiscordBot ("))
        now = self.clock()
        if now < self._limited_until:
            self._break("ignored", self._is_known)
            self._is_known = True
            return self._limited(self._limited_until - now, is_global=True)
        self._is_known = False
        while self._all and self._all[0] <= now - 1.0:
            self._all.popleft()
        if len(self._all) >= _A_SECOND:
            self.broken["global"] += 1
            return self._limited(1.0, is_global=True)
        self._all.append(now)
        return None

    def _limited(self, seconds: float, *, is_global: bool) -> Response:
        wait_s = max(0.001, seconds)
        body = {"message": "You are being rate limited.", "retry_after": round(wait_s, 3), "global": is_global}
        headers = {"retry-after": str(math.ceil(wait_s)), **({"x-ratelimit-global": "true"} if is_global else {})}
        return JSONResponse(body, HTTPStatus.TOO_MANY_REQUESTS, headers)

    def _break(self, limit: str, is_broken: bool) -> None:  # noqa: FBT001 - a condition
        if is_broken:
            self.broken[limit] += 1


def _failure(status: HTTPStatus, code: int, words: str) -> JSONResponse:
    return JSONResponse({"message": words, "code": code}, status)
