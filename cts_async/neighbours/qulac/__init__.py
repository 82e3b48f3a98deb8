"""Qulac (Aliannejadi, Zamani, Crestani and Croft, SIGIR 2019): questions and answers about TREC's Web Track topics."""
