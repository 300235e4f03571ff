"""Counts what a copied database amounts to, in a process of its own: its bytes can be sent away meanwhile.

A thread would not do: what reads a million rows in Python keeps whoever sends the bytes waiting at every block.
"""

import multiprocessing
import os
import sqlite3
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from hermesops.node.errors import NotReadyError
from hermesops.node.state import databases
from hermesops.node.state.digest import Tables, tables_of

_LONGEST_S = 1800.0
"""After which a count is given up. Reading ends by itself before, wherever SQLite lets it be told to."""

_FORK = multiprocessing.get_context("fork")
"""The errand that counts has one thread, and nothing to be imported anew."""


class Counting:
    """Counts the agent's database while the context lasts.

    Args:
        copied: A copy that nobody else opens, and that stays until ``tables`` has answered.
    """

    def __init__(self, copied: Path) -> None:
        self._answer, answer = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(target=_count, args=(copied, answer), daemon=True)
        self._process.start()
        answer.close()

    def __enter__(self) -> Self:
        """Go on."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Count no further."""
        self._process.kill()
        self._process.join()
        self._answer.close()

    def tables(self) -> Tables:
        """Wait for its end; what the rows amount to.

        Raises:
            sqlite3.DatabaseError: It is damaged, none, or without an end.
            NotReadyError: It was killed.
        """
        if not self._answer.poll(_LONGEST_S):
            raise sqlite3.DatabaseError(f"no end after {_LONGEST_S:g} s")
        try:
            told = self._answer.recv()
        except EOFError:
            raise NotReadyError("the counting of a database was cut short") from None
        if told is None:
            raise sqlite3.DatabaseError("it cannot be read")
        tables: Tables = told
        return tables


def _count(copied: Path, answer: Connection) -> None:
    tables: Tables | None
    try:
        with databases.opened(os.fsencode(copied), is_alone=True) as held:
            tables = tables_of(held)
    except sqlite3.DatabaseError:
        tables = None
    answer.send(tables)
