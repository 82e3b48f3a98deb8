"""One module for each kind of dataset: its opener and its description, in a `KIND` (see `datasets.registry`)."""
