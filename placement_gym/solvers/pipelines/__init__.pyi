from .forward import Forward as Forward
from .ideal_stages import BY_CUT as BY_CUT
from .ideals import TooManyIdealsError as TooManyIdealsError
from .pipeline import exact_pipeline as exact_pipeline
from .pipeline import find_largest_load_ms as find_largest_load_ms
from .pipeline import linear_pipeline as linear_pipeline
