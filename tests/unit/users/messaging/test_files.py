"""Kinds of files by their content, addresses of files, and what messengers say of a user's file."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.connector import frames
from hermesops.errors import RefusedError
from hermesops.model.messaging.files import LARGEST, MOST, FileKind, UserFile
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.files import kinds, references
from hermesops.users.messaging.inbound.routing import Queue, Reply, route
from hermesops.users.messaging.messengers.discord import read as discord
from hermesops.users.messaging.messengers.exchange import fetch
from hermesops.users.messaging.messengers.slack import read as slack
from hermesops.users.messaging.messengers.telegram import read as telegram
from tests.support.suite.cases import each_case
from tests.unit.users.messaging.test_routing import ACCOUNT, MESSAGE, RUNNING

SECRET = "5" * 64
PHOTO = UserFile(FileKind.PHOTO, "r", "a.jpg", "image/jpeg", 10)
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@each_case(
    ("name", "content", "media_type", "is_misnamed"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n", "image/png", False),
        ("a.PNG", b"\xff\xd8\xff\xe0", "image/jpeg", True),
        ("a.webp", b"RIFF0000WEBP", "image/webp", False),
        ("a.webp", b"RAFF0000WEBP", "application/octet-stream", True),
        ("a.docx", b"PK\x03\x04", DOCX, False),
        ("a.docx", b"MZ\x90\x00", "application/octet-stream", True),
        ("a.txt", b"hello", "text/plain", False),
        ("a.txt", b"he\0llo", "application/octet-stream", False),
        ("a.exe", b"MZ\x90\x00", "application/octet-stream", False),
        ("photo", b"\xff\xd8\xff\xe0", "image/jpeg", False),
        ("a.mp4", b"\0\0\0\x18ftypmp42", "video/mp4", False),
        ("a.pdf", b"", "application/octet-stream", True),
    ],
)
def test_a_files_kind_is_its_first_bytes(name: str, content: bytes, media_type: str, is_misnamed: bool) -> None:  # noqa: FBT001 - a case
    assert kinds.media_type_of(name, content) == media_type
    assert kinds.is_misnamed(name, content) is is_misnamed


@each_case(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\a.txt", "a.txt"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("..", "photo.jpg"),
        ("", "photo.jpg"),
        ("x" * 500 + ".png", "x" * 120 + "…"),
    ],
)
def test_names_are_shown_safely(name: str, shown: str) -> None:
    assert kinds.shown_name(name, FileKind.PHOTO, "image/jpeg") == shown


@given(st.text())
def test_no_name_leads_elsewhere_or_breaks_a_line(name: str) -> None:
    shown = kinds.shown_name(name)
    assert shown.isprintable()
    assert not {"/", "\n"} & set(shown)
    assert shown not in {"", ".", ".."}


def test_an_address_is_of_one_file_and_an_hour() -> None:
    incoming = replace(MESSAGE, files=(PHOTO, PHOTO))
    first, second = references.addressed(incoming, "https://agents.example/", SECRET, 1000.0)
    assert first.url.startswith(f"https://agents.example{references.MEDIA}/")
    reference = references.parse(first.url.removeprefix("https://agents.example"))
    assert reference
    assert (reference.message_id, reference.index) == (MESSAGE.id, 0)
    assert reference.expires_at == 1000 + references.LIFE_S
    assert reference.is_signed(["other", SECRET])
    assert not reference.is_signed(["other"])
    assert not replace(reference, index=1).is_signed([SECRET])
    assert not replace(reference, expires_at=9999).is_signed([SECRET])
    assert first.url != second.url


@given(st.text())
def test_no_other_address_names_a_file_of_an_agent(url: str) -> None:
    assert references.uploaded_id(url) == ""
    assert references.parse(url) is None


def test_a_message_with_files_names_them_to_the_agent() -> None:
    incoming = replace(MESSAGE, text="", files=(replace(PHOTO, name="]\u201d evil"),))
    files = tuple(references.addressed(incoming, "https://a.example", SECRET, 0.0))
    event = json.loads(frames.inbound(incoming, files))["event"]
    assert event["message_type"] == "photo"
    assert event["media_urls"] == [files[0].url]
    assert event["text"].endswith(f"\n\n{incoming.words}")
    assert '“]" evil”' in event["text"]


def test_a_request_to_send_a_file_is_parsed() -> None:
    action = {
        "op": "send_media",
        "chat_id": "tg.1",
        "source_url": "https://a.example/x",
        "content": "see",
        "reply_to": "7",
    }
    frame = frames.parse(json.dumps({"type": "outbound", "requestId": "r", "action": action}))
    assert frame == frames.FileMessage("r", "tg.1", "see", "7", "https://a.example/x")


@each_case(
    ("messenger", "size", "is_queued"),
    [
        (Messenger.TELEGRAM, 20_000_000, True),
        (Messenger.TELEGRAM, 20_000_001, False),
        (Messenger.SLACK, LARGEST, True),
        (Messenger.SLACK, LARGEST + 1, False),
        (Messenger.WHATSAPP, 0, True),
    ],
)
def test_a_file_alone_is_a_message_unless_it_is_too_large(messenger: Messenger, size: int, is_queued: bool) -> None:  # noqa: FBT001 - a case
    incoming = replace(MESSAGE, messenger=messenger, text="", files=(replace(PHOTO, size=size),))
    decision = route(incoming, ACCOUNT, RUNNING)
    assert isinstance(decision, Queue if is_queued else Reply)


@each_case(
    "url",
    ["https://evil.example/x", "https://files.slack.com@evil.example/x", "https://u:p@files.slack.com/x", "x", ""],
)
async def test_no_file_is_read_at_another_host(url: str) -> None:
    with pytest.raises(RefusedError, match="elsewhere"):
        await fetch("Slack", url, hosts=["files.slack.com"], largest=LARGEST)


def test_telegrams_photo_is_its_largest_size() -> None:
    sizes = [{"file_id": "small", "file_size": 1}, {"file_id": "large", "file_size": 9}]
    author = {"id": 5, "is_bot": False, "first_name": "Ada"}
    message = {"from": author, "chat": {"id": 5, "type": "private"}, "photo": sizes, "caption": "look"}
    update = telegram.read(json.dumps({"update_id": 1, "message": message}).encode())
    assert update
    assert (update.text, update.files) == ("look", (UserFile(FileKind.PHOTO, "large", "photo.jpg", "image/jpeg", 9),))


@each_case("file_id", ["../x", "a b", "", 7, None, "x" * 257])
def test_an_odd_id_of_telegrams_is_no_file(file_id: object) -> None:
    author = {"id": 5, "is_bot": False, "first_name": "Ada"}
    message = {"from": author, "chat": {"id": 5, "type": "private"}, "document": {"file_id": file_id}}
    update = telegram.read(json.dumps({"update_id": 1, "message": message}).encode())
    assert update
    assert update.files == ()


def test_files_of_elsewhere_and_more_than_a_few_are_left_out() -> None:
    files = [
        {"id": f"F{number}", "name": "a.txt", "mode": "external" if number == 1 else "hosted"} for number in range(12)
    ]
    assert len(tuple(slack._files(files))) == MOST - 1
    attachments = [{"id": "12345", "filename": "a.ogg", "content_type": "audio/ogg", "size": -1}, "odd", {"id": "x"}]
    assert tuple(discord._files("777", attachments)) == (UserFile(FileKind.AUDIO, "777/12345", "a.ogg", "audio/ogg"),)
