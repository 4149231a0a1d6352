# Tools come from .venv where there is one, otherwise from the search path.
export PATH := justfile_directory() / ".venv/bin:" + env_var("PATH")

# Lint and test
default: lint test

# Check style and types
lint:
    ruff check .
    ruff format --check .
    mypy indexer benchmarks

# Run the tests; arguments go to pytest
test *args:
    python -m pytest {{ args }}

# Repair what ruff can repair
fix:
    ruff check --fix .
    ruff format .

# Measure; results go to benchmarks/results/
bench *args:
    python -m benchmarks {{ args }}

# Write again what is made from the code: the command-line reference, the methods of Workspace
docs:
    python -m indexer.service.signatures
    python -m indexer.cli.reference

# Draw the pictures of the documentation anew, from the sample workspace
pictures:
    python docs/pictures/make.py

# Build the pages as a site in build/site; a link that leads nowhere is an error
site:
    mkdocs build --strict
