"""A hermesops that knows later revisions of the registry: the project's scripts in a folder, and more behind them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermesops.store.registry.schema import schema_version

EXPAND = """
op.add_column("users", sa.Column("nickname", sa.String(31), nullable=True))
op.execute("UPDATE users SET nickname = alias")
"""
"""Adds a column, which older code need not know, and fills it."""

CONTRACT = """
op.add_column("users", sa.Column("title", sa.String(64), nullable=True))
op.execute("UPDATE users SET title = nickname")
op.drop_column("users", "nickname")
"""
"""Removes the column that ``EXPAND`` has added; what was in it goes into another."""

BROKEN = """
op.drop_column("users", "title")
op.execute("UPDATE no_such_table SET name = 1")
"""
"""Fails after its first change."""

_SCRIPT = '''"""A later revision."""

import sqlalchemy as sa
from alembic import op

revision = {revision!r}
down_revision = {before!r}


def upgrade() -> None:
    """Change the tables."""
    {body}
'''


@contextmanager
def newer_hermesops(folder: Path, *bodies: str) -> Iterator[tuple[str, ...]]:
    """Let this process know one revision more for each body, until the block ends; the later revisions.

    Args:
        folder: For all scripts; made anew.
        bodies: What each revision's ``upgrade`` does, oldest first.
    """
    known = schema_version.REVISIONS
    later = tuple(f"{int(known[-1]) + number:04}" for number in range(1, len(bodies) + 1))
    shutil.copytree(schema_version.MIGRATIONS, folder, dirs_exist_ok=True)
    for revision, before, body in zip(later, (known[-1], *later), bodies, strict=False):
        content = _SCRIPT.format(revision=revision, before=before, body=body.strip().replace("\n", "\n    "))
        (folder / "versions" / f"{revision}_later.py").write_text(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_version, "MIGRATIONS", folder)
        patch.setattr(schema_version, "REVISIONS", (*known, *later))
        yield later
