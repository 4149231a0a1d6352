"""Folder policies: pure functions from the children's frames to the folder's own."""

from __future__ import annotations

from indexer.synthesis.base import ChildInput, Policy, Tokens, verified
from indexer.synthesis.registry import make_policy, policy_names

__all__ = ["ChildInput", "Policy", "Tokens", "make_policy", "policy_names", "verified"]
