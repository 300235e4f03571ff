import os
from pathlib import Path

from hermesops.node import files, servers

_LOG = """\
INFO tools.mcp_tool: MCP server 'notes' (HTTP): registered 5 tool(s): mcp__notes__add
WARNING tools.mcp_tool: MCP server 'mail' failed initial connection after 3 attempts, parking
WARNING tools.mcp_tool: Failed to connect to MCP server 'mail': All connection attempts failed
WARNING tools.mcp_tool: Failed to connect to MCP server 'back': x
INFO tools.mcp_tool: MCP server 'back' (HTTP): registered 1 tool(s): mcp__back__add
"""


def test_the_last_line_about_a_server_counts() -> None:
    assert servers.states(_LOG, ["notes", "mail", "back", "silent"]) == {
        "notes": True,
        "mail": False,
        "back": True,
        "silent": None,
    }


def test_the_log_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/agent.log").write_text(_LOG)
    with files.opened_folder(tmp_path) as home:
        assert servers.tail(home) == _LOG


def test_neither_a_link_nor_a_pipe_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "logs").mkdir()
    with files.opened_folder(tmp_path) as home:
        (tmp_path / "logs/agent.log").symlink_to(tmp_path / "secret")
        assert servers.tail(home) == ""
        (tmp_path / "logs/agent.log").unlink()
        os.mkfifo(tmp_path / "logs/agent.log")
        assert servers.tail(home) == ""
        (tmp_path / "logs/agent.log").unlink()
        (tmp_path / "logs").rmdir()
        (tmp_path / "logs").symlink_to(tmp_path)
        assert servers.tail(home) == ""
