"""What users call: the command, and the functions behind it."""
