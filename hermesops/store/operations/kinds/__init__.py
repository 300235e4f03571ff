"""Kinds of operations: parameters, conflicting kinds, and the note for an abandoned operation. One class a kind."""
