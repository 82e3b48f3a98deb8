"""Durable concurrent execution of keyed steps; knows no language model, no role and no benchmark."""
