"""The staged compiler: an event stream becomes RAW, SPEC, HEADER and FROZEN, purely."""

from indexer.compiler.compile import CompiledStages, compile_stages
from indexer.compiler.events import EventError, Node, read_events
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
    FrozenStage,
    HeaderStage,
    RawStage,
    SpecStage,
)

__all__ = [
    "SCHEMA_VERSION",
    "CollapsePolicy",
    "CompiledStages",
    "EventError",
    "FrozenStage",
    "HeaderPolicy",
    "HeaderStage",
    "Node",
    "Policy",
    "PolicyError",
    "RawStage",
    "SelectionPolicy",
    "SpecStage",
    "compile_stages",
    "parse_policy",
    "read_events",
]
