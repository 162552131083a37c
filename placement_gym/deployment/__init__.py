"""From a model to a placement in use: plan, compile, export, and checks of both."""
