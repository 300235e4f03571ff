"""The served console's operators: their sessions, roles and requests, which workers carry out."""
