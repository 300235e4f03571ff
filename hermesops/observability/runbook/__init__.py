"""Finds runbooks, reads their steps and runs them; ``runbooks/TEMPLATE.md`` shows how they are written."""
