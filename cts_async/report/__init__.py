"""What a finished run says: its summary and its tables."""
