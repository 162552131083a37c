"""The measured backend: OpenVINO HETERO, timed against a single device."""
