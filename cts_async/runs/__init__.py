"""What a run directory says: the only code that reads one."""
