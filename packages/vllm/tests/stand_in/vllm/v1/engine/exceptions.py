"""The error of an engine that has ended."""


class EngineDeadError(Exception):
    pass
