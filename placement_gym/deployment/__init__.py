"""From a model to a placement in use: plan, compile, export, pipelines, and checks of both."""
