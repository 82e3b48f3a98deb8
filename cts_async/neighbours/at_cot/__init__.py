"""AT-CoT (Tang et al., SIGIR 2025): its evaluation of clarifying questions and of the queries they lead to."""
