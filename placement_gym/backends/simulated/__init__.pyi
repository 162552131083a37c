from .backend import SimulatedBackend as SimulatedBackend
from .backend import uint8 as uint8
from .build import SimulatedProblem as SimulatedProblem
from .build import build_simulated_problem as build_simulated_problem
from .build import default_schedule as default_schedule
from .build import make_problem as make_problem
from .joint import JointBackend as JointBackend
from .transfers import schedule_transfers as schedule_transfers
