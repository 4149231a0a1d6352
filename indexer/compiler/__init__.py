"""The staged compiler: an event stream becomes RAW, SPEC, HEADER and FROZEN, purely."""

from indexer.compiler.compile import CompiledStages, compile_stages
from indexer.compiler.events import EventError, Node, read_events
from indexer.compiler.plugins import PluginError, Plugins, custom_names, installed_plugins
from indexer.compiler.policy import (
    CollapsePolicy,
    HeaderPolicy,
    Policy,
    PolicyError,
    SelectionPolicy,
    parse_policy,
)
from indexer.compiler.stages import (
    SCHEMA_VERSION,
    VERSIONS,
    FrozenStage,
    HeaderStage,
    RawStage,
    SpecStage,
)

__all__ = [
    "SCHEMA_VERSION",
    "VERSIONS",
    "CollapsePolicy",
    "CompiledStages",
    "EventError",
    "FrozenStage",
    "HeaderPolicy",
    "HeaderStage",
    "Node",
    "PluginError",
    "Plugins",
    "Policy",
    "PolicyError",
    "RawStage",
    "SelectionPolicy",
    "SpecStage",
    "compile_stages",
    "custom_names",
    "installed_plugins",
    "parse_policy",
    "read_events",
]
