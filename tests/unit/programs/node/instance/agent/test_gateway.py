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
