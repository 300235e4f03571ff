"""What messengers report: verified, kept, routed to agents."""
