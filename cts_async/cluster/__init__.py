"""The same run on many processes and machines: a head deals work out, workers run the ordinary engine."""
