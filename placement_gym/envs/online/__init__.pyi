from .env import OnlineEnv as OnlineEnv
