"""One table model, its renderers, and the tables of every command."""
