"""The viewer and the report in a real Chromium. A package, so that its one browser ends with its last test."""
