"""What counts as another state, and what does not."""

import sqlite3

from hermesops.wire.state.digest import Digest, tables_of
from tests.support.suite.cases import each_case


def _digest(*session: object) -> str:
    """Of a state with one session, whose columns take any type."""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE sessions (id, source, user_id, parent_session_id, started_at, title)")
        database.execute("INSERT INTO sessions (id, source, user_id) VALUES (?, ?, ?)", session)
        digest = Digest()
        digest.add(tables_of(database))
        return str(digest.result()["sessions"]["digest"])


@each_case(
    ("first", "other"),
    [
        (("ab", "c", ""), ("a", "bc", "")),
        (("a", "", "b"), ("a", "b", "")),
        (("1", "x", "y"), (1, "x", "y")),
        (("None", "x", "y"), (None, "x", "y")),
        (("at1 b", "", ""), ("a", "b", "")),
    ],
)
def test_rows_that_read_alike_when_run_together_are_not_the_same(
    first: tuple[object, ...], other: tuple[object, ...]
) -> None:
    assert _digest(*first) != _digest(*other)
    assert _digest(*first) == _digest(*first)
