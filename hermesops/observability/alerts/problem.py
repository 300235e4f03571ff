"""Problems of checked files, with line numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """Something that has to be mended before a file is applied.

    Attributes:
        line: From 1; 0 where it is about the whole file.
    """

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"
