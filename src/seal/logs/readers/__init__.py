"""One reader a format. Each says by content whether a record is its own, and translates it into a `Log`."""
