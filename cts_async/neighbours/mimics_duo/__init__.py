"""MIMICS-Duo (Tavakoli, Trippas, Zamani, Scholer and Sanderson, SIGIR 2022): clarification panes with labels."""
