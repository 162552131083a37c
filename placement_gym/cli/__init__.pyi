from .main import main as main
from .main import make_parser as make_parser
