"""Durable multi-agent threads. This list is the public surface of the library."""

from agency.blueprint import Blueprint, ParentInfo, RequestContext, ThreadMetadata
from agency.code import CallTool, CodeResult, CodeRunner
from agency.context import ToolContext
from agency.errors import (
    AgencyError,
    DefinitionError,
    HookFailed,
    InvalidInput,
    ModelError,
    NewerStore,
    NotAThreadStore,
    NotFound,
    StaleActivation,
    StoreError,
    ToolError,
    WrongState,
)
from agency.events import Event, EventType
from agency.hooks import ChildReport, HookContext, Middleware, Plan
from agency.local import LocalRuntime, open_thread
from agency.messages import Message, ToolCall, Usage
from agency.models import Model, ModelParams, ModelRequest, ToolSpec
from agency.runtime import Runtime
from agency.system import AgentSystem
from agency.thread.thread import Thread
from agency.thread.views import Accepted, RunEnvelope, RunState, ThreadState
from agency.tools import RetryPolicy, Tool, tool
from agency.turn.effects import ModelReply
from agency.turn.outcomes import Approve, Deferred, Deny, Edit, Fail, Finish, Handoff
from agency.turn.state import Limits

__all__ = [
    "Accepted",
    "AgencyError",
    "AgentSystem",
    "Approve",
    "Blueprint",
    "CallTool",
    "ChildReport",
    "CodeResult",
    "CodeRunner",
    "Deferred",
    "DefinitionError",
    "Deny",
    "Edit",
    "Event",
    "EventType",
    "Fail",
    "Finish",
    "Handoff",
    "HookContext",
    "HookFailed",
    "InvalidInput",
    "Limits",
    "LocalRuntime",
    "Message",
    "Middleware",
    "Model",
    "ModelError",
    "ModelParams",
    "ModelReply",
    "ModelRequest",
    "NewerStore",
    "NotAThreadStore",
    "NotFound",
    "ParentInfo",
    "Plan",
    "RequestContext",
    "RetryPolicy",
    "RunEnvelope",
    "RunState",
    "Runtime",
    "StaleActivation",
    "StoreError",
    "Thread",
    "ThreadMetadata",
    "ThreadState",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolSpec",
    "Usage",
    "WrongState",
    "open_thread",
    "tool",
]
