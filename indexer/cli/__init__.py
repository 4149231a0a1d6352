"""The command line: parse, call the workspace, print. One module per command."""
