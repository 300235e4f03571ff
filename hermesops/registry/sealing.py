"""What the registry needs in order to keep secrets: somebody who seals them. It holds no key itself."""

from typing import Protocol


class Sealer(Protocol):
    """Encrypts and decrypts a value that belongs to one place and to no other.

    ``place`` is ``table/column/row id``: a sealed value copied to another row does not open there.
    """

    @property
    def key_ids(self) -> frozenset[str]:
        """The keys at hand."""

    def seal(self, plain: str, *, place: str) -> str:
        """Encrypt with the current key; the result is text and names that key."""

    def unseal(self, sealed: str, *, place: str) -> str:
        """Decrypt what was sealed for this very place.

        Raises:
            RefusedError: The key is not at hand, or the value does not open with it here.
        """


def place(table: str, column: str, row: str) -> str:
    """The name of one field of one row."""
    return f"{table}/{column}/{row}"
