"""The command line, and the demo. Nothing else imports it."""
