"""Where searches and visits go: one module per kind of backend, behind the interfaces of `base`."""
