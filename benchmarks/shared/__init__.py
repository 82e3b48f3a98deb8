"""What the benchmarks share: measuring, printing, servers, and worlds to run on."""
