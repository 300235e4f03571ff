"""What passes between engine, providers and programs: property values, calls, answers. No process of its own."""
