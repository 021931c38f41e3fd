"""The command line and the demo. No other module imports it."""
