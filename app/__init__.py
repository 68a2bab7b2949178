"""The application: the commands, and the same as functions."""
