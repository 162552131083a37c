from .beam import MERGE_TOLERANCE as MERGE_TOLERANCE
from .beam import WIDTHS as WIDTHS
from .beam import Beam as Beam
from .beam import widen as widen
