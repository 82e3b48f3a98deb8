"""The golden reference: what its evidence is, what it has to be, how it is built."""
