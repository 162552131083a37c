from .env import OnlineEnv as OnlineEnv
from .plans import PlanStage as PlanStage
from .plans import PlanTable as PlanTable
from .plans import ServingPlan as ServingPlan
