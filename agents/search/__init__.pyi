from .search import INFEASIBLE_SPEEDUP as INFEASIBLE_SPEEDUP
from .search import Search as Search
from .starts import extend_with_rank as extend_with_rank
