"""Operators' commands to rollouts and to single agents: pause, resume, approve, freeze, roll back."""
