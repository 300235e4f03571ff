"""Files that commands read: in the encodings in which programs write them, and none to its end whatever its size."""

import codecs
import io
import sys
from pathlib import Path

import pytest

from hermesops.cli.options import files
from hermesops.cli.options.files import read
from hermesops.errors import UsageError

TEXT = "user;plan\näda;light\n"
WRITTEN = (
    TEXT.encode(),
    codecs.BOM_UTF8 + TEXT.encode(),
    TEXT.replace("\n", "\r\n").encode(),
    TEXT.encode("utf-16"),
    codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
)


def test_text_is_read_in_the_encodings_that_programs_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users.csv"
    for data in WRITTEN:
        file.write_bytes(data)
        assert read(str(file)) == TEXT, data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))
        assert read("-") == TEXT, data


def test_another_encoding_is_named_with_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    for data in (TEXT.encode("latin-1"), codecs.BOM_UTF16_LE + b"\x00"):
        file.write_bytes(data)
        with pytest.raises(UsageError, match="not UTF-8") as refused:
            read(str(file))
        assert "CSV UTF-8" in str(refused.value.hint)


def test_a_saved_preview_is_bounded_and_one_without_an_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SAVED_BYTES", 8 * 1024**2)
    saved = tmp_path / "saved"
    saved.write_bytes(b"x" * 8 * 1024**2)
    assert len(files.read_saved(saved)) == 8 * 1024**2
    with saved.open("ab") as more:
        more.write(b"x")
    for file in (saved, Path("/dev/zero")):
        with pytest.raises(UsageError, match="larger than 8 MiB"):
            files.read_saved(file)


def test_one_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        files.read_saved(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        files.read_saved(tmp_path / "binary")
