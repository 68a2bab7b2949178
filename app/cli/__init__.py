"""The command line: options, help, settings, exit codes, signals and streams."""
