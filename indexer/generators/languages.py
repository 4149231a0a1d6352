"""Which language a file is in, by its name and, for a nameless script, its first line."""

from __future__ import annotations

from indexer.core.patterns import pattern

_BY_SUFFIX: dict[str, str] = {}
for _language, _suffixes in {
    "python": "py pyi pyw",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c h",
    "markdown": "md markdown mkd mdx",
    "rst": "rst",
    "json": "json jsonc json5 webmanifest ipynb",
    "toml": "toml",
    "yaml": "yaml yml",
    "ini": "ini cfg conf properties editorconfig",
    "c++": "cc cpp cxx hpp hh hxx",
    "c#": "cs",
    "css": "css scss sass less",
    "elixir": "ex exs",
    "haskell": "hs",
    "html": "html htm xhtml",
    "kotlin": "kt kts",
    "lua": "lua",
    "perl": "pl pm",
    "php": "php",
    "protobuf": "proto",
    "ruby": "rb rake gemspec",
    "scala": "scala sc",
    "shell": "sh bash zsh fish ksh",
    "sql": "sql",
    "swift": "swift",
    "terraform": "tf tfvars",
    "xml": "xml xsd xsl svg plist",
    "gettext": "po pot",
}.items():
    for _suffix in _suffixes.split():
        _BY_SUFFIX[_suffix] = _language

_BY_NAME = {
    ".bash_profile": "shell",
    ".bashrc": "shell",
    ".editorconfig": "ini",
    ".profile": "shell",
    ".zshrc": "shell",
    "cargo.lock": "toml",
    "cmakelists.txt": "cmake",
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "go.mod": "go.mod",
    "gnumakefile": "makefile",
    "justfile": "justfile",
    "makefile": "makefile",
    "pipfile": "toml",
    "poetry.lock": "toml",
    "rakefile": "ruby",
    "readme": "markdown",
    "sconstruct": "python",
    "uv.lock": "toml",
    "wscript": "python",
}

_INTERPRETER = pattern(rb"#![^\n]{0,200}?\b(python|node|deno|bun|bash|zsh|sh|ruby|perl)")
# A text with a heading that is underlined, and with a directive or a role, is reStructuredText.
_RST = pattern(
    rb"(?s)(?:^|\n)[^\s][^\n]{2,}\n([=~^*#-])\1{2,}[ \t]*\n.*?\n(?:\.\. [\w:]|[^\n]{0,200}:\w+:`)"
)
_RST_WITHIN = 8192
_BY_INTERPRETER = {
    b"python": "python",
    b"node": "javascript",
    b"deno": "typescript",
    b"bun": "typescript",
    b"bash": "shell",
    b"zsh": "shell",
    b"sh": "shell",
    b"ruby": "ruby",
    b"perl": "perl",
}

WHOLE_NAMES = frozenset(_BY_NAME)
"""Names that decide as a whole, in lower case."""


def ending_of(name: str) -> str:
    """All of a file's name that has a say in its language, so that a rename keeps what is known.

    A whole name, or `*.` and what follows its last dot.
    """
    # Only ASCII letters are folded, so that the answer is the same under every Unicode version.
    folded = name.lower() if name.isascii() else name
    stem, dot, suffix = folded.rpartition(".")
    return f"*.{suffix}" if dot and stem and folded not in _BY_NAME else folded


def language_of(name: str, content: bytes) -> str:
    """The language of a file; `text` where nothing says more."""
    ending = ending_of(name)
    if ending == "*.txt" and _RST.search(content, 0, _RST_WITHIN):
        return "rst"
    if ending.startswith("*."):
        return _BY_SUFFIX.get(ending[2:], "text")
    if ending in _BY_NAME:
        return _BY_NAME[ending]
    if content.startswith(b"#!"):
        found = _INTERPRETER.match(content)
        if found is not None:
            return _BY_INTERPRETER[found[1]]
    return "text"
