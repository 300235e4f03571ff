"""The platform's bots as operators check them: whether messengers take the tokens, and where they send reports."""
