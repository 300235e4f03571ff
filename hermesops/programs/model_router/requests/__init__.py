"""Requests to a model: the gate, admission, the fields that go on, and the highest price."""
