"""The application: command line, demo and report. Nothing else imports it."""
