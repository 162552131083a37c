"""Post: cross-entropy minimisation and proximal policy optimisation of plain logits."""

from agents.common.logits import LogitsOptions
from agents.post.post import Post

__all__ = ["LogitsOptions", "Post"]
