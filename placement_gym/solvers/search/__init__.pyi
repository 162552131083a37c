from .anytime import AnytimeSearch as AnytimeSearch
from .anytime import SearchResult as SearchResult
from .anytime import search as search
from .proposals import RandomMoves as RandomMoves
