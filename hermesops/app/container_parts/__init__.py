"""Parts of the container, a module each, until the container is one declaration."""
