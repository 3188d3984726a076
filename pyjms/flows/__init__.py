"""Workflows over queues: a business process as a sequence of atomic transactions, with compensations to undo them.

A definition is data (`read_flow`). Any number of `FlowEngine`s run the instances; the state is in queues and in a
database, so any engine may crash. `StepServer` does the work of a step. (Lecture, "Workflow".)
"""

from pyjms.flows.definition import (
    Flow,
    FlowDefinitionException,
    FlowException,
    Step,
    StepRefused,
    UnknownInstanceException,
    read_flow,
    read_flow_file,
)
from pyjms.flows.engine import FlowEngine
from pyjms.flows.instance import Instance, Note, Status
from pyjms.flows.picture import draw
from pyjms.flows.server import FlowClient, StepServer
from pyjms.flows.states import FlowState, state_of, states_of
from pyjms.flows.store import FlowStore

__all__ = [
    "Flow",
    "FlowClient",
    "FlowDefinitionException",
    "FlowEngine",
    "FlowException",
    "FlowState",
    "FlowStore",
    "Instance",
    "Note",
    "Status",
    "Step",
    "StepRefused",
    "StepServer",
    "UnknownInstanceException",
    "draw",
    "read_flow",
    "read_flow_file",
    "state_of",
    "states_of",
]
