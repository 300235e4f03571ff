"""Actions of pages: each is a command of hermesops, with its preview and its page. ``table`` has them all."""
