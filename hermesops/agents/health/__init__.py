"""The health of instances, from their nodes and from Prometheus where there is one; changes no instance."""
