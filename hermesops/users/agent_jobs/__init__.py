"""Jobs that users give their agents to do at times; each agent keeps its own."""
