"""``hermesops platform``, a module for each part of the noun."""
