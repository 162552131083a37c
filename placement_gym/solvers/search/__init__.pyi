from .anytime import AnytimeSearch as AnytimeSearch
from .anytime import SearchResult as SearchResult
from .anytime import search as search
from .moves import RandomMoves as RandomMoves
