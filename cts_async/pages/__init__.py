"""The HTML report, figures, and the view of an instance that report and viewer share."""
