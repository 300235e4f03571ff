"""Programs built from Go source, once, in the cache that test runs share."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hermesops.base.assets import folder
from hermesops.localcloud.world import go_tools
from hermesops.localcloud.world.go_tools import GoTools
from tests.support.suite.kept import shared_cache


@dataclass(frozen=True)
class GoProgram:
    """One program.

    Attributes:
        module: Folder of its Go module, below ``images``.
        package: The Go package that it is.
    """

    module: str
    package: str

    @property
    def place(self) -> Path:
        """Where it is once it has been built."""
        return self._tools(lambda _: None).place(self.package)

    async def build(self, report: Callable[[str], None]) -> Path:
        """Build it unless it is there; of two that want it at once, one builds and the other waits."""
        return await self._tools(report).build(self.package)

    def built(self, report: Callable[[str], None] = lambda _: None) -> Path:
        """The same, for who is not asynchronous."""
        return asyncio.run(self.build(report))

    def _tools(self, report: Callable[[str], None]) -> GoTools:
        environ = dict(os.environ)  # noqa: TID251 - a build needs HOME, PATH and proxies, as the command passes them
        return GoTools(folder("images") / self.module, shared_cache(), environ, report)


VERSITYGW = GoProgram("tools", "github.com/versity/versitygw/cmd/versitygw")
ACTIONLINT = GoProgram("tools/actionlint", "github.com/rhysd/actionlint/cmd/actionlint")
LOKI = GoProgram("tools/loki", go_tools.LOKI)
