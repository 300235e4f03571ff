"""Texts of agents as messengers show them: Markdown read into styled text, split, and written for each messenger."""
