from .policy import LogitsOptions as LogitsOptions
from .policy import LogitsPolicy as LogitsPolicy
