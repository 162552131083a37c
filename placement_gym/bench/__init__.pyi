from .benchmark import benchmark as benchmark
from .comparing import compare as compare
from .scenes import open_runs as open_runs
from .scenes import open_scene as open_scene
