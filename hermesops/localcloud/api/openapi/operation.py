"""One call of the API. Pure."""

from dataclasses import dataclass, field

from hermesops.localcloud.api.openapi.schemas import Schema

ONE = "/machines/{machine_id}"
BACKUPS = f"{ONE}/backups"
TOOLBOX = f"{ONE}/toolbox"


@dataclass(frozen=True)
class Operation:
    """One call.

    Attributes:
        status: Of success.
        answer: Schema of success; ``None`` for one without a body.
        body: Schema of what is sent; ``None`` for nothing.
        needs_body: Whether it must be sent.
        query: Parameters in the query, by name; those in ``required`` must be there.
        refusals: Statuses of refusals besides 401 and, below something that is named, 404.
        media: Type of the answer.
        raw_body: Type of a body that is not JSON.
        free: Whether it is shown to everybody.
    """

    method: str
    path: str
    summary: str
    answer: Schema | None = None
    status: int = 200
    body: Schema | None = None
    needs_body: bool = True
    query: dict[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()
    media: str = "application/json"
    raw_body: str = ""
    free: bool = False

    @property
    def is_toolbox(self) -> bool:
        """Whether a machine's daemon answers it."""
        return self.path.startswith(f"{TOOLBOX}/") or self.path == f"{ONE}/exec"
