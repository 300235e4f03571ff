"""Kinds of files by their first bytes, and names that claim another one. Pure.

An archive is data: nothing here unpacks, decodes or renders a file.

Source: the formats' own specifications; RFC 9639 (FLAC), RFC 3533 (Ogg), ISO/IEC 14496-12 (``ftyp``), PKWARE's APPNOTE.
"""

from collections.abc import Mapping, Sequence

from hermesops.model.messaging.files import FileKind, UserFile, largest_download, largest_upload
from hermesops.model.messaging.messenger import Messenger
from hermesops.wire.foreign_text import one_line

_MB = 1_000_000
_NAME = 120
_BEGINNINGS: Sequence[tuple[int, bytes, str]] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"#!AMR", "audio/amr"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
)
"""Where a kind's mark is, the mark, and the kind."""

_RIFF = {"image/webp", "audio/wav"}
_NAMED: Mapping[str, str] = {
    **dict.fromkeys(("png",), "image/png"),
    **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
    **dict.fromkeys(("gif",), "image/gif"),
    **dict.fromkeys(("webp",), "image/webp"),
    **dict.fromkeys(("ogg", "oga", "opus"), "audio/ogg"),
    **dict.fromkeys(("flac",), "audio/flac"),
    **dict.fromkeys(("mp3",), "audio/mpeg"),
    **dict.fromkeys(("wav",), "audio/wav"),
    **dict.fromkeys(("mp4", "m4a", "m4v", "mov"), "video/mp4"),
    **dict.fromkeys(("webm", "mkv"), "video/webm"),
    **dict.fromkeys(("pdf",), "application/pdf"),
    **dict.fromkeys(("zip", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "jar", "apk"), "application/zip"),
    **dict.fromkeys(("gz", "tgz"), "application/gzip"),
    **dict.fromkeys(("7z",), "application/x-7z-compressed"),
}
"""The kind that an extension claims, of those that are known by their first bytes."""

_IN_ZIP: Mapping[str, str] = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_EXTENSIONS: Mapping[str, str] = {kind: extension for extension, kind in reversed(list(_NAMED.items()))}
_PLAIN = frozenset({"txt", "md", "csv", "log", "json", "xml", "yaml", "yml", "toml", "ini"})

_IMAGE, _SOUND, _DOCUMENT = 5 * _MB, 16 * _MB, 100 * _MB
_WHATSAPP: Mapping[str, int] = {
    **dict.fromkeys(("image/jpeg", "image/png"), _IMAGE),
    **dict.fromkeys(("audio/ogg", "audio/mpeg", "audio/amr", "video/mp4"), _SOUND),
    **dict.fromkeys(("application/pdf", "text/plain", *_IN_ZIP.values()), _DOCUMENT),
}
"""Bytes of the kinds that WhatsApp takes. Source: WhatsApp Business Platform, "Media", supported types."""


def shown_name(name: str, kind: FileKind = FileKind.DOCUMENT, media_type: str = "") -> str:
    """The name of a file as it is shown and passed on: its last part, in one line; made up where there is none."""
    last = one_line(name.replace("\\", "/").rpartition("/")[2], longest=_NAME).strip(". ")
    extension = _EXTENSIONS.get(media_type.partition(";")[0].strip(), "")
    return last or (f"{kind.value}.{extension}" if extension else kind.value)


def media_type_of(name: str, content: bytes) -> str:
    """The kind of a file by its content; its name decides only what the first bytes cannot say."""
    known = _known(content)
    extension = _extension(name)
    if known == "application/zip":
        return _IN_ZIP.get(extension, known)
    if known or extension not in _PLAIN:
        return known or "application/octet-stream"
    return "text/plain" if b"\0" not in content[:4096] else "application/octet-stream"


def is_misnamed(name: str, content: bytes) -> bool:
    """Whether a file's name claims a kind that its first bytes are not."""
    claimed = _NAMED.get(_extension(name))
    return claimed is not None and _known(content) != claimed


def refusal_of_download(messenger: Messenger, files: Sequence[UserFile]) -> str:
    """Why files of a user do not reach the agent, in a sentence for the user; empty where they may."""
    largest = largest_download(messenger)
    too_large = next((file.name for file in files if file.size > largest), "")
    return too_large_words(too_large, largest) if too_large else ""


def refusal_of_upload(messenger: Messenger, name: str, media_type: str, size: int) -> str:
    """Why a file of an agent does not reach the user, in a sentence for the user; empty where it does."""
    largest = largest_upload(messenger)
    if messenger is Messenger.WHATSAPP:
        if media_type not in _WHATSAPP:
            return f"Your agent has sent {name}, a kind of file that WhatsApp does not take."
        largest = min(largest, _WHATSAPP[media_type])
    words = f"Your agent has sent {name}, which has more than {largest // _MB} MB: {messenger} takes no more."
    return words if size > largest else ""


def too_large_words(name: str, largest: int) -> str:
    """The sentence for a user whose file is too large."""
    return f"{name} has more than {largest // _MB} MB, so your agent does not get it."


def _known(content: bytes) -> str:
    head = content[:16]
    for at, mark, kind in _BEGINNINGS:
        if head[at : at + len(mark)] == mark and (kind not in _RIFF or head.startswith(b"RIFF")):
            return kind
    return ""


def _extension(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""
