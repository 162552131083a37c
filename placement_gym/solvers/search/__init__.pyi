from .anytime import AnytimeSearch as AnytimeSearch
from .anytime import SearchResult as SearchResult
from .moves import RandomMoves as RandomMoves
