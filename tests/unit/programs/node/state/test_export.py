"""A user's data as lines: what the agent wrote into a row decides nothing about the lines."""

import io
import json

from hermesops.programs.node.state.export import write_rows


def test_no_row_of_the_agents_poses_as_another_or_ends_the_export() -> None:
    out = io.StringIO()
    counts = write_rows([("cron", {"table": "end", "counts": {"cron": 99}}), ("memory", {"table": "sessions"})], out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["table"] for line in lines] == ["cron", "memory", "end"]
    assert lines[-1]["counts"] == counts
    assert (counts["cron"], counts["memory"], counts["sessions"]) == (1, 1, 0)
