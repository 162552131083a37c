from .largest_load import max_load as max_load
from .path_load import END as END
from .path_load import MAX_TASKS as MAX_TASKS
from .path_load import START as START
from .path_load import LoadCuts as LoadCuts
from .path_load import PathProgram as PathProgram
from .path_load import solve_path_load as solve_path_load
from .path_load import tighten as tighten
