"""Names of PyTorch Geometric, whose import warns of ``torch.jit.script``.

PyTorch Geometric issues it, so that users of this package can do nothing about it; other warnings
are shown.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "`torch.jit.script` is", DeprecationWarning)
    from torch_geometric.data import Data
    from torch_geometric.nn import GATConv, GCNConv, GINConv, InstanceNorm, NNConv, global_mean_pool
    from torch_geometric.utils import degree, scatter, to_dense_batch

__all__ = [
    "Data",
    "GATConv",
    "GCNConv",
    "GINConv",
    "InstanceNorm",
    "NNConv",
    "degree",
    "global_mean_pool",
    "scatter",
    "to_dense_batch",
]
