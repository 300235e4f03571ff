"""Builds the agent's wheel from a tag's archive, with libraries as upstream's own lock file has them."""
