"""Reports on fitted models, as an HTML page for notebooks and files."""

from .report import Report, report_of_files, report_of_fit

__all__ = ["Report", "report_of_files", "report_of_fit"]
