from . import path_load as path_load
from .largest_load import max_load as max_load
from .load_cuts import END as END
from .load_cuts import MAX_TASKS as MAX_TASKS
from .load_cuts import START as START
from .load_cuts import LoadCuts as LoadCuts
from .load_cuts import tighten as tighten
from .path_program import PathProgram as PathProgram
