"""Rows of messengers: accounts, codes, messages both ways, sockets of agents. Each class is one table's, or two's."""
