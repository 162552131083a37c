"""A placement problem: units, devices, placements, the layout of an action, and costs."""
