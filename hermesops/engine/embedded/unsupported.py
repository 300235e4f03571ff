"""The one error for everything that the embedded engine leaves to the pulumi CLI."""

from hermesops.errors import UsageError


class UnsupportedByEmbeddedError(UsageError):
    """The program or its state uses something that only the pulumi CLI can do.

    Args:
        what: The feature, as its user would call it.
        where: The resource or file that uses it.
    """

    def __init__(self, what: str, where: str) -> None:
        super().__init__(
            f"{where}: the embedded engine does not support {what}; the pulumi CLI does",
            hint="install the pulumi CLI and set HERMESOPS_PULUMI_ENGINE=cli",
        )
        self.what = what
