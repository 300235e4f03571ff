"""How instances do: asked of their nodes, or of Prometheus where there is one; nothing here changes an instance."""
