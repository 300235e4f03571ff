"""What agents write: in parts, paced, sent by the platform's bots."""
