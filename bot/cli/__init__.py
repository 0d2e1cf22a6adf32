"""The command line: first setup, the settings file, system jobs, and tools."""
