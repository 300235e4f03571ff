from datetime import UTC, datetime, timedelta

from hermesops.programs.node.instance.agent import gateway

_LOG = """\
INFO tools.mcp_tool: MCP server 'notes' (HTTP): registered 5 tool(s): mcp__notes__add
WARNING tools.mcp_tool: MCP server 'mail' failed initial connection after 3 attempts, parking
WARNING tools.mcp_tool: Failed to connect to MCP server 'mail': All connection attempts failed
WARNING tools.mcp_tool: Failed to connect to MCP server 'back': x
INFO tools.mcp_tool: MCP server 'back' (HTTP): registered 1 tool(s): mcp__back__add
"""


def test_the_last_line_about_a_server_counts() -> None:
    assert gateway.mcp_states(_LOG, ["notes", "mail", "back", "silent"]) == {
        "notes": True,
        "mail": False,
        "back": True,
        "silent": None,
    }


def test_jobs_that_ended_within_the_hour_are_counted_by_their_outcome() -> None:
    at, hour_s = datetime(2026, 12, 1, 12, tzinfo=UTC), 3600.0

    def job(minutes: float, status: object) -> dict[str, object]:
        return {"last_run_at": (at - timedelta(minutes=minutes)).isoformat(), "last_status": status}

    jobs = [job(1, "ok"), job(59, "error"), job(60, "error"), job(61, "error"), job(-5, "ok"), job(1, None)]
    odd: list[dict[str, object]] = [
        {},
        {"last_status": "error"},
        {"last_status": "error", "last_run_at": [1]},
        job(1, {"error": 1}),
    ]
    assert gateway.ended([*jobs, *odd], at.timestamp(), hour_s) == {"ok": 1, "failed": 2}
    assert gateway.ended([], at.timestamp(), hour_s) == {"ok": 0, "failed": 0}
