"""The workspace for editors, over the Language Server Protocol."""
