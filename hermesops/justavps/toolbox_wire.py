"""Answers of a machine's daemon, parsed as leniently as the vendor's own."""

from pydantic import AliasChoices, Field, field_validator

from hermesops.justavps.wire import Wire


class ExecResult(Wire):
    """A command that ended.

    Attributes:
        stdout: Bytes that are not UTF-8 arrive as U+FFFD: use files for those.
        truncated: Whether the daemon dropped output; ours does after 16 MiB a stream.
    """

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    duration_ms: float = 0
    truncated: bool = False

    @field_validator("stdout", "stderr", mode="before")
    @classmethod
    def _null_is_empty(cls, value: object) -> object:
        return "" if value is None else value


class FileEntry(Wire):
    """A file or folder on a machine, as the daemon describes it.

    Attributes:
        mode: Permission bits in octal, as ``644``.
    """

    path: str = ""
    name: str = ""
    size: int = 0
    mode: str = Field(default="", validation_alias=AliasChoices("mode_bits", "mode"))
    is_dir: bool = Field(default=False, validation_alias=AliasChoices("is_dir", "type"))

    @field_validator("is_dir", mode="before")
    @classmethod
    def _by_either_name(cls, value: object) -> object:
        return value in {True, "directory", "dir", "folder"}

    @field_validator("mode", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return "" if value is None else str(value)
