from .best_known import VALUES as VALUES
from .best_known import BestKnown as BestKnown
from .best_known import find_best_known as find_best_known
from .best_known import is_trivial as is_trivial
from .best_known import load_values as load_values
from .best_known import name_problem as name_problem
from .identity import identify as identify
from .identity import identify_row as identify_row
