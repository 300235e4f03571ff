"""Slack for the local world: one app, people of one workspace who write to it, and the limits that Slack documents.

It counts what broke a limit. Nothing is kept on disk: with the world's end every chat is gone.

Source: Slack, "The Events API" (three seconds, three retries), "Verifying requests from Slack", ``chat.postMessage``,
``auth.test``, ``files.info``, ``files.getUploadURLExternal``, ``files.completeUploadExternal``, "Rate limits",
"Truncating content", "Block Kit", "Handling user interaction".
"""

import asyncio
import hmac
import json
import math
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.localcloud.vendors.chat_logs import Changes, ChatLog, Postbox
from hermesops.localcloud.vendors.users_door import UsersDoor
from hermesops.localcloud.vendors.vendor_files import VendorFile, VendorFiles
from hermesops.model.messaging.messenger import LIMITS, Messenger

PREFIX = "/slack"
APP = "A0LOCAL0001"
"""Id of the app."""

WEBHOOK_PATH = "/webhooks/slack"
"""Path of the users' API that takes events."""

RETRIES_S = (0.0, 60.0, 300.0)
"""Seconds after which Slack sends an event again that was not answered with success."""

_TEAM, _BOT = "T0LOCAL01", "B0LOCAL01"
_BURST = 3
"""Messages of a channel that may come faster than one a second."""

_ANSWER_S = 3.0
_IDS_FROM = 10**6
_LARGEST_FILE = 1_000_000_000
_LONGEST_SECTION, _LONGEST_LABEL = 3000, 75
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SPECIAL = ("<!", "<@", "<#")


@dataclass
class Channel:
    """A person's channel with the app.

    Attributes:
        error: Slack's word for why it takes nothing; empty for none.
    """

    person: str
    id: str
    log: ChatLog = field(repr=False)
    error: str = ""
    _recent: deque[float] = field(default_factory=deque)

    @property
    def texts(self) -> list[str]:
        """What the bot wrote."""
        return self.log.texts

    def is_too_fast(self, now: float) -> bool:
        """Whether the channel takes no message now; one that it takes counts."""
        while self._recent and self._recent[0] < now - _BURST:
            self._recent.popleft()
        if len(self._recent) >= _BURST:
            return True
        self._recent.append(now)
        return False


class LocalSlack:
    """The Slack of one world.

    Args:
        token: Of the bot.
        secret: By which events are signed.
        clock: Seconds of a clock that does not go back.
        webhook: Takes events, until ``verify`` says otherwise.
        heard: Called for each event that was taken.
        door: Says where events go, at each.
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
        self.token = token or f"xoxb-{secrets.token_urlsafe(24)}"
        self.secret = secret or secrets.token_hex(16)
        self.channels: dict[str, Channel] = {}
        self.broken: Counter[str] = Counter()
        self.webhook = webhook
        self.changes = Changes()
        self._clock = clock
        self._heard, self._door = heard, door
        self._events = 0
        self._postbox = Postbox(self.deliver)
        self.post = self._postbox.post
        self.open, self.close = self._postbox.open, self._postbox.close
        self._limited_until, self._is_known = float("-inf"), False
        self._pressing: set[asyncio.Task[None]] = set()
        self.files = VendorFiles("F0", _UPPER, 9)
        self._uploads: dict[str, VendorFile] = {}
        """Files without a channel yet, by id; without content where only their place was asked for."""

    def begin_after(self, seconds: float) -> None:
        """Number events above all that an earlier process may have sent, by seconds since 1970."""
        self._events = int(seconds) * _IDS_FROM

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        return [
            Route("/files/{id}", self._file, methods=["GET"]),
            Route("/upload/{id}", self._upload, methods=["POST"]),
            Route("/{method}", self._call, methods=["POST"]),
        ]

    def channel(self, person: str) -> Channel:
        """A person's channel with the app. ``person`` is a word of capitals and digits."""
        return self.channels.setdefault(f"D{person}", Channel(person, f"D{person}", ChatLog(self.changes)))

    def message(self, person: str, text: str, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
        """The event of a message that a person writes, as Slack escapes it."""
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        channel = self.channel(person)
        channel.log.add(text, is_of_bot=False)
        message = {
            "type": "message",
            "channel_type": "im",
            "channel": channel.id,
            "user": f"U{person}",
            "text": escaped,
        }
        return self._event({**message, **more})

    def pressing(self, person: str, action_id: str) -> bytes:
        """The body of an interaction: a button of the bot's last message that a person presses."""
        channel, stamp = self.channel(person), f"{time.time():.6f}"
        payload = {
            "type": "block_actions",
            "user": {"id": f"U{person}", "team_id": _TEAM},
            "channel": {"id": channel.id},
            "actions": [{"type": "button", "action_id": action_id, "action_ts": stamp}],
        }
        return urlencode({"payload": json.dumps(payload)}).encode()

    def press(self, person: str, action_id: str) -> bool:
        """Press a button as a person; Slack sends it once."""
        task = asyncio.ensure_future(self._press(self.pressing(person, action_id)))
        self._pressing.add(task)
        task.add_done_callback(self._pressing.discard)
        return True

    async def _press(self, body: bytes) -> None:
        response = await self._posted(body, {"content-type": "application/x-www-form-urlencoded"})
        if response is not None and response.is_success:
            self._heard()

    def sending(self, person: str, file: VendorFile, text: str = "") -> Mapping[str, Any]:
        """The event of a file that a person sends, with a text or without one."""
        id_ = self.files.add(file)
        shared = {
            "id": id_,
            "name": file.name,
            "mimetype": file.media_type,
            "size": len(file.content),
            "mode": "hosted",
        }
        return self.message(person, text, subtype="file_share", files=[shared])

    def limit(self, seconds: float) -> None:
        """Take no message of any channel for a time, as Slack does where there were too many."""
        self._limited_until = self._clock() + seconds

    def signed(self, body: bytes, at: float | None = None) -> Mapping[str, str]:
        """Headers of an event. ``at``: seconds since 1970; now by default."""
        stamp = str(int(time.time() if at is None else at))
        signature = hmac.new(self.secret.encode(), f"v0:{stamp}:".encode() + body, sha256).hexdigest()
        return {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={signature}"}

    async def verify(self, url: str) -> bool:
        """Set the webhook's address, if it answers Slack's question."""
        self.webhook, challenge = url, secrets.token_urlsafe(24)
        response = await self._post({"type": "url_verification", "challenge": challenge}, {})
        return response is not None and response.is_success and response.text == challenge

    async def deliver(self, event: Mapping[str, Any], waits_s: Sequence[float] = RETRIES_S) -> int:
        """Send an event until it is answered with success, as Slack does; returns the attempts.

        Raises:
            TimeoutError: It was not.
        """
        for attempt, wait_s in enumerate((0.0, *waits_s)):
            await pause(wait_s)
            more = {"x-slack-retry-num": str(attempt), "x-slack-retry-reason": "http_timeout"} if attempt else {}
            response = await self._post(event, more)
            if response is not None and response.is_success:
                self._heard()
                return attempt + 1
        raise TimeoutError("the webhook takes nothing")

    async def _post(self, content: Mapping[str, Any], more: Mapping[str, str]) -> httpx.Response | None:
        return await self._posted(json.dumps(dict(content)).encode(), {"content-type": "application/json", **more})

    async def _posted(self, body: bytes, more: Mapping[str, str]) -> httpx.Response | None:
        headers = {**self.signed(body), **more}
        try:
            return await self._door().request("POST", self.webhook, content=body, headers=headers, within_s=_ANSWER_S)
        except (httpx.HTTPError, HermesError):
            return None

    def _event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        self._events += 1
        return {
            "type": "event_callback",
            "team_id": _TEAM,
            "event_id": f"Ev{self._events:08d}",
            "event_time": int(time.time()),
            "event": dict(event),
        }

    async def _call(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _failure("invalid_auth")
        match request.path_params["method"]:
            case "auth.test":
                return JSONResponse({"ok": True, "user": "local_hermes", "team_id": _TEAM, "bot_id": _BOT})
            case "chat.postMessage":
                return self._write(await request.json())
            case "files.info":
                return self._info(request, str((await request.form()).get("file")))
            case "files.getUploadURLExternal":
                form = await request.form()
                return self._place(request, str(form.get("filename")), str(form.get("length")))
            case "files.completeUploadExternal":
                return self._complete(await request.json())
        return _failure("unknown_method")

    def _info(self, request: Request, id_: str) -> Response:
        if self.files.get(id_) is None:
            return _failure("file_not_found")
        url = str(request.url.replace(path=f"{request.scope.get('root_path', '')}/files/{id_}"))
        return JSONResponse({"ok": True, "file": {"id": id_, "url_private_download": url}})

    async def _file(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return Response("<html>sign in</html>", media_type="text/html")  # as Slack's host of files
        return self.files.answer(request.path_params["id"])

    def _place(self, request: Request, name: str, length: str) -> Response:
        if not name or not length.isdigit() or not 0 < int(length) <= _LARGEST_FILE:
            self.broken["file"] += 1
            return _failure("invalid_arguments")
        id_ = self.files.add(VendorFile(name, b""))
        self._uploads[id_] = VendorFile(name, b"")
        url = str(request.url.replace(path=f"{request.scope.get('root_path', '')}/upload/{id_}"))
        return JSONResponse({"ok": True, "upload_url": url, "file_id": id_})

    async def _upload(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        if id_ not in self._uploads:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        self._uploads[id_] = VendorFile(self._uploads[id_].name, await request.body())
        return Response("OK")

    def _complete(self, body: Mapping[str, Any]) -> Response:
        channel = self.channels.get(str(body.get("channel_id")))
        file = self._uploads.get(str(body["files"][0]["id"]))
        if channel is None or file is None or not file.content:
            return _failure("file_not_found" if channel else "channel_not_found")
        if wait_s := self._wait_s(channel):
            return JSONResponse(
                {"ok": False, "error": "ratelimited"}, HTTPStatus.TOO_MANY_REQUESTS, {"retry-after": str(wait_s)}
            )
        channel.log.add(file.shown, is_of_bot=True, file=file)
        return JSONResponse({"ok": True, "files": [{"id": body["files"][0]["id"]}]})

    def _write(self, body: Mapping[str, Any]) -> Response:
        channel, text = self.channels.get(str(body.get("channel"))), str(body.get("text", ""))
        if channel is None or channel.error:
            return _failure(channel.error if channel else "channel_not_found")
        if wait_s := self._wait_s(channel):
            return JSONResponse(
                {"ok": False, "error": "ratelimited"}, HTTPStatus.TOO_MANY_REQUESTS, {"retry-after": str(wait_s)}
            )
        if not text.strip() or len(text) > LIMITS[Messenger.SLACK].most:
            self.broken["text"] += 1
            return _failure("msg_too_long" if text.strip() else "no_text")
        self.broken["mention"] += any(word in text for word in _SPECIAL)
        self.broken["unfurl"] += body.get("unfurl_links") is not False
        labels = self._labels(body.get("blocks") or ())
        self.broken += Counter()  # drops zeros
        channel.log.add(text, is_of_bot=True, buttons=labels)
        return JSONResponse({"ok": True, "channel": channel.id, "ts": f"{time.time():.6f}"})

    def _labels(self, blocks: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """Labels of buttons by their ids; a block that Slack would refuse counts as broken."""
        texts = [block["text"]["text"] for block in blocks if block["type"] == "section"]
        buttons = [each for block in blocks if block["type"] == "actions" for each in block["elements"]]
        labels = {str(each["action_id"]): str(each["text"]["text"]) for each in buttons}
        self.broken["blocks"] += any(len(text) > _LONGEST_SECTION for text in texts)
        self.broken["blocks"] += any(len(label) > _LONGEST_LABEL for label in labels.values())
        return labels

    def _wait_s(self, channel: Channel) -> int:
        """Seconds that the bot has to wait, 0 for none. Only a limit of which it knew is one that it broke."""
        left_s = self._limited_until - self._clock()
        if left_s > 0:
            self.broken["ignored"] += self._is_known
            self._is_known = True
            return math.ceil(left_s)
        self._is_known = False
        if channel.is_too_fast(self._clock()):
            self.broken["pace"] += 1
            self.limit(1.0)
            return 1
        return 0


def _failure(error: str) -> JSONResponse:
    return JSONResponse({"ok": False, "error": error})
