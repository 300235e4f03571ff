"""Reading what may come from a hostile side: JSON, and text that is to be shown. Pure."""
