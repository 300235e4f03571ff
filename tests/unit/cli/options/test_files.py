"""Files are read in the encodings in which programs write them."""

import codecs
import io
import sys
from pathlib import Path

import pytest

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
