"""Millrace in Python: predict by exported models, learn in one process, run jobs on Kafka, train what you like.

The encoder, the models and the Kafka client are those of the programs. docs/python.md begins here.
"""

import importlib
from typing import TYPE_CHECKING, Any

from millrace import _native
from millrace.model import Model
from millrace.topic import send

if TYPE_CHECKING:
    from millrace.job import Job
    from millrace.online import OnlineClassifier, OnlineRegressor
    from millrace.parameters import Member, Param, ParameterManager, Table

__version__: str = _native.version
__all__ = [
    "Job",
    "Member",
    "Model",
    "OnlineClassifier",
    "OnlineRegressor",
    "Param",
    "ParameterManager",
    "Table",
    "send",
]

# What needs more than NumPy, or is not needed to predict, is imported when it is asked for.
_LATER = {
    "Job": "job",
    "OnlineClassifier": "online",
    "OnlineRegressor": "online",
    "Member": "parameters",
    "Param": "parameters",
    "ParameterManager": "parameters",
    "Table": "parameters",
}

if not TYPE_CHECKING:  # to a type checker the module would have every name

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'millrace' has no attribute {name!r}")
        return getattr(importlib.import_module(f"millrace.{_LATER[name]}"), name)
