"""Routes, a module for each noun: they parse, call one service, and render."""
